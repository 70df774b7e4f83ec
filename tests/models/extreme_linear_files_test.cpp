// The linear kinds of an ExtremeClassifier: they learn without any option, their bits do not depend
// on threads, folders keep every answer, and what cannot be is refused.

#include <soma/models/extreme_files.hpp>
#include <soma/numeric/draw_sequence.hpp>
#include <soma/sparse.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <unistd.h>

using namespace soma;
using soma_test::id_of;
using soma_test::read_text;
using soma_test::write_text;

namespace {

constexpr std::size_t own_features = 5, noise_features = 600;

// A point has some labels, four of the five features of each, and twelve features that say nothing.
// The last class has no point.
data::SparsePoints easy_points(std::size_t count, std::size_t classes, std::size_t labels,
                               std::uint64_t seed) {
  data::SparsePoints made{.features = own_features * classes + noise_features, .classes = classes};
  made.labels.offsets.assign(1, 0);
  DrawSequence draws({.seed = seed, .stream = 1});
  for (std::size_t i = 0; i < count; ++i) {
    std::set<std::int32_t> own, ids;
    while (own.size() < labels)
      own.insert(static_cast<std::int32_t>(draws.below(static_cast<std::uint32_t>(classes - 1))));
    for (const std::int32_t label : own) {
      const std::uint32_t missing = draws.below(own_features);
      for (std::uint32_t k = 0; k < own_features; ++k)
        if (k != missing)
          ids.insert(static_cast<std::int32_t>(own_features) * label +
                     static_cast<std::int32_t>(k));
    }
    for (int k = 0; k < 12; ++k)
      ids.insert(static_cast<std::int32_t>(own_features * classes + draws.below(noise_features)));
    made.ids.insert(made.ids.end(), ids.begin(), ids.end());
    made.offsets.push_back(made.ids.size());
    made.labels.add(std::vector<std::int32_t>(own.begin(), own.end()));
  }
  return made;
}

double precision(const models::ExtremeClassifier& model, const data::SparsePoints& points) {
  const auto best = model.top(points, 1);
  double right = 0;
  for (std::size_t i = 0; i < best.size(); ++i) {
    const auto labels = points.labels.list(i);
    right += std::binary_search(labels.begin(), labels.end(), best[i].at(0).id) ? 1 : 0;
  }
  return right / static_cast<double>(best.size());
}

std::vector<std::byte> bits_of(Context& context, const models::ExtremeClassifier& model) {
  std::vector<std::byte> all;
  for (const auto& [name, tensor] : model.linear_model()->state(context)) {
    const std::vector<std::byte> own = soma_test::bits(context, tensor);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("soma_extreme_linear_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

constexpr models::ExtremeKind linear_kinds[] = {models::ExtremeKind::linear,
                                                models::ExtremeKind::tree};

}  // namespace

TEST_CASE("a linear model learns without any option", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  const auto model = models::ExtremeClassifier::fit(context, easy_points(1500, 40, 1, 1));
  CHECK(model->kind() == models::ExtremeKind::linear);
  CHECK(precision(*model, easy_points(300, 40, 1, 2)) > 0.97);
  const models::ExtremeFit& fit = model->linear_model()->fitted();
  CHECK(fit.passes == 8);
  CHECK((fit.c == 0.25 || fit.c == 1 || fit.c == 4));
  CHECK(fit.held_out_points > 100);
  CHECK(fit.held_out_precision > 0.9);
  CHECK(fit.classes_without_points == 1);
  CHECK(model->label_counts().points == 1500);
  // The class without a point is never an answer, also where all classes are asked for.
  for (const auto& best : model->top(easy_points(50, 40, 1, 3), 40)) {
    CHECK(best.size() == 39);
    for (const nn::FoundClass& one : best) CHECK(one.id != 39);
  }
}

TEST_CASE("a tree learns very many classes, with many labels a point", "[unit]") {
  auto context = make_context({.threads = 2});
  add_sparse(context);
  const auto model = models::ExtremeClassifier::fit(context, easy_points(2400, 2500, 3, 1));
  CHECK(model->kind() == models::ExtremeKind::tree);
  CHECK(precision(*model, easy_points(300, 2500, 3, 2)) > 0.9);
  // The shape of a set that batches of a sampler cannot hold.
  const auto wide = models::ExtremeClassifier::fit(context, easy_points(200, 30938, 19, 1));
  CHECK(precision(*wide, easy_points(200, 30938, 19, 1)) > 0.95);
}

TEST_CASE("threads change no bit of a fit", "[unit][invariance]") {
  const data::SparsePoints points = easy_points(500, 150, 2, 1);
  for (const models::ExtremeKind kind : linear_kinds) {
    std::vector<std::byte> first;
    for (const int threads : {1, 2, 3, 7}) {
      auto context = make_context({.threads = threads});
      add_sparse(context);
      const auto model = models::ExtremeClassifier::fit(context, points, {.kind = kind, .seed = 5});
      const std::vector<std::byte> bits = bits_of(context, *model);
      if (threads == 1) first = bits;
      CHECK(bits == first);
    }
    auto context = make_context({.threads = 1});
    add_sparse(context);
    CHECK(bits_of(context, *models::ExtremeClassifier::fit(context, points,
                                                           {.kind = kind, .seed = 6})) != first);
  }
}

TEST_CASE("folders of linear models and trees keep every answer", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  const data::SparsePoints points = easy_points(400, 80, 2, 1), test = easy_points(50, 80, 2, 2);
  const Folder folder;
  for (const models::ExtremeKind kind : linear_kinds)
    for (const bool raw : {false, true}) {
      const auto model = models::ExtremeClassifier::fit(
          context, points, {.kind = kind, .c = 1, .raw_values = raw, .beam = 7});
      const std::string path = folder / "model";
      models::save_extreme_classifier(*model, path);
      const auto loaded = models::load_extreme_classifier(context, path);
      CHECK(loaded->kind() == kind);
      CHECK(loaded->linear_model()->beam() == 7);
      CHECK(loaded->linear_model()->fitted().passes == model->linear_model()->fitted().passes);
      CHECK(loaded->label_counts().points_of_class == model->label_counts().points_of_class);
      CHECK(bits_of(context, *loaded) == bits_of(context, *model));
      const auto was = model->top(test, 5), is = loaded->top(test, 5);
      REQUIRE(is.size() == was.size());
      for (std::size_t i = 0; i < is.size(); ++i)
        for (std::size_t k = 0; k < is[i].size(); ++k) {
          CHECK(is[i][k].id == was[i][k].id);
          CHECK(is[i][k].logit == was[i][k].logit);
        }
      // In batches, as evaluations of a network are.
      data::PointSource source(context, test, {.batch_sequences = 50, .shuffle = false});
      data::Batch batch;
      REQUIRE(source.next(batch));
      const auto batched = model->top(batch, 5);
      for (std::size_t i = 0; i < is.size(); ++i) CHECK(batched[i].at(0).id == was[i].at(0).id);

      const std::string config = path + "/config.json", whole = read_text(config);
      const auto id_with = [&](const std::string& part, const std::string& by) {
        std::string changed = whole;
        const std::size_t at = changed.find(part);
        REQUIRE(at != changed.npos);
        write_text(config, changed.replace(at, part.size(), by));
        return id_of([&] { models::load_extreme_classifier(context, path); });
      };
      CHECK(id_with("\"version\": 2", "\"version\": 3") == "models.config_value");
      CHECK(id_with("soma_extreme_classifier", "soma_fast_classifier") == "models.config_type");
      CHECK(id_with("\"classes\": 80", "\"classes\": 0") == "models.config_value");
      // A tree of raw values has nothing for features that no node has.
      if (kind == models::ExtremeKind::linear || !raw)
        CHECK(id_with("\"features\": ", "\"features\": 1") == "state.shape");
      const std::string name(models::extreme_kind_names[static_cast<std::size_t>(kind)]);
      CHECK(id_with("\"" + name + "\"", "\"network\"") == "models.config_value");
      CHECK(id_with("\"" + name + "\"",
                    kind == models::ExtremeKind::tree ? "\"linear\"" : "\"tree\"") ==
            "state.missing_name");
      write_text(config, whole);
      std::filesystem::remove(path + "/label_counts.safetensors");
      CHECK(models::load_extreme_classifier(context, path)->label_counts().points_of_class.empty());
    }
}

TEST_CASE("fits that cannot be are refused", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  const auto id_with = [&](const models::ExtremeFitOptions& options, const auto& change) {
    data::SparsePoints points = easy_points(60, 20, 1, 1);
    change(points);
    return id_of([&] { models::ExtremeClassifier::fit(context, points, options); });
  };
  const auto same = [](data::SparsePoints&) {};
  CHECK(id_with({}, same) == "no error");
  CHECK(id_with({.c = -1}, same) == "models.config_value");
  CHECK(id_with({.c = NAN}, same) == "models.config_value");
  CHECK(id_with({.strength = 2.5}, same) == "models.config_value");
  CHECK(id_with({.held_out = 0.7}, same) == "models.config_value");
  CHECK(id_with({.beam = 0}, same) == "models.config_value");
  CHECK(id_with({.kind = models::ExtremeKind::network}, same) == "models.config_value");
  CHECK(id_with({.kind = models::ExtremeKind::linear, .memory = 1000}, same) == "memory.exhausted");
  CHECK(id_with({}, [](data::SparsePoints& points) { points.classes = 1; }) == "data.labels");
  CHECK(id_with({}, [](data::SparsePoints& points) {
          points.classes = 1;
          std::fill(points.labels.ids.begin(), points.labels.ids.end(), 0);
        }) == "models.config_value");
  CHECK(id_with({}, [](data::SparsePoints& points) {
          points.labels = {};
          for (int i = 0; i < 60; ++i) points.labels.add({});
        }) == "data.labels");
  CHECK(id_with({}, [](data::SparsePoints& points) {
          points.values.assign(points.ids.size(), 1.0f);
          points.values[3] = INFINITY;
        }) == "data.feature");
  StopFlag stop;
  stop.request();
  CHECK(id_with({.stop = &stop}, same) == "runtime.stopped");
  const auto model = models::ExtremeClassifier::fit(context, easy_points(60, 20, 1, 1));
  Record record;
  CHECK(id_of([&] { model->describe(record); }) == "train.options");
  CHECK(id_of([&] { model->search(); }) == "train.options");
}

TEST_CASE("points are weighted by how rare and how telling features are", "[unit]") {
  // Three points of two classes: feature 0 in all, 1 in the two points of class 0, 2 in none.
  data::SparsePoints points{.features = 4, .classes = 2};
  points.labels.offsets.assign(1, 0);
  points.ids = {0, 1, 0, 1, 0, 3};
  points.offsets = {0, 2, 4, 6};
  points.labels.add(std::vector<std::int32_t>{0});
  points.labels.add(std::vector<std::int32_t>{0});
  points.labels.add(std::vector<std::int32_t>{1});
  const double all = std::log(4.0 / 4) + 1, two = std::log(4.0 / 3) + 1,
               one = std::log(4.0 / 2) + 1;
  const models::PointWeights by_idf(points, {});
  const auto near = [](float given, double expected) {
    return std::abs(static_cast<double>(given) - expected) <= 4 * 0x1p-24 * std::abs(expected);
  };
  std::vector<float> weighted;
  by_idf.weigh(std::vector<std::int32_t>{0, 1}, std::vector<float>{1, 2}, weighted);
  const double length = std::sqrt(all * all + 4 * two * two);
  CHECK(near(weighted[0], all / length));
  CHECK(near(weighted[1], 2 * two / length));
  // A feature that no point has counts in the length, and adds nothing.
  by_idf.weigh(std::vector<std::int32_t>{1, 2}, {}, weighted);
  CHECK(near(weighted[0], two / std::sqrt(two * two + one * one)));
  CHECK(weighted[1] == 0);

  const models::PointWeights told(points, {.strength = 1});
  // By the formula, class by class: K is 4 and 2 of N = 6.
  const auto g = [](double k0, double k1) {
    const double a = 0.3, m = k0 + k1, n = 6 + a;
    double sum = 0;
    for (const auto& [k, of_class] : {std::pair(k0, 4.0), std::pair(k1, 2.0)}) {
      const double p = (k + a) / (m + 2 * a);
      const double r = std::log((k + a) / (m - k + a)) - std::log((of_class + a) / (n - of_class));
      sum += p * r * r;
    }
    return std::sqrt(sum);
  };
  CHECK(std::abs(static_cast<double>(told.g()[0]) - g(2, 1)) < 1e-6);
  CHECK(std::abs(static_cast<double>(told.g()[1]) - g(2, 0)) < 1e-6);
  CHECK(std::abs(static_cast<double>(told.g()[3]) - g(0, 1)) < 1e-6);
  CHECK(told.g()[2] == 0);
  // g keeps the length of what is known.
  told.weigh(std::vector<std::int32_t>{0, 3, 2}, {}, weighted);
  const double known = all * all + one * one, unseen = one * one;
  const double squares = static_cast<double>(weighted[0]) * static_cast<double>(weighted[0]) +
                         static_cast<double>(weighted[1]) * static_cast<double>(weighted[1]);
  CHECK(std::abs(squares - known / (known + unseen)) < 1e-6);
  CHECK(near(weighted[1] / weighted[0], one * g(0, 1) / (all * g(2, 1))));
  const models::PointWeights raw(points, {.raw = true});
  raw.weigh(std::vector<std::int32_t>{0, 2}, std::vector<float>{3, -4}, weighted);
  CHECK(weighted == std::vector<float>{3, -4});
}
