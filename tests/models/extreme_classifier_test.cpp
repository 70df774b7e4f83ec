// Very many classes: every sampler learns what a point's features say, the same bits come out for
// any number of threads, and ranks are refused where they would not.

#include <soma/data/point_source.hpp>
#include <soma/models/extreme_classifier.hpp>
#include <soma/sparse.hpp>
#include <soma/train.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <string>
#include <vector>

using namespace soma;
using soma_test::id_of;

namespace {

constexpr std::size_t classes = 300, features = 3 * classes;

// Points of one or two labels; each label has three features of its own.
data::SparsePoints points() {
  data::SparsePoints made{.features = features, .classes = classes};
  for (std::int32_t i = 0; i < 600; ++i) {
    std::vector<std::int32_t> labels{i * 7 % 300};
    if (i % 4 == 0) labels.push_back((i * 13 + 5) % 300);
    std::sort(labels.begin(), labels.end());
    labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
    for (const std::int32_t label : labels)
      for (std::int32_t k = 0; k < 3; ++k) {
        made.ids.push_back(3 * label + k);
        made.values.push_back(1 + 0.25f * static_cast<float>(k));
      }
    made.offsets.push_back(made.ids.size());
    made.labels.add(labels);
  }
  return made;
}

models::ExtremeOptions options(nn::Sampler kind) {
  models::ExtremeOptions made{.features = features, .classes = classes, .width = 32, .seed = 3};
  made.feature_deviation = 0.3f;
  made.sampler = {
      .kind = kind, .set = 64, .seed = 3, .refresh_every = 5, .index = {.tables = 8, .codes = 1}};
  return made;
}

struct Run {
  nn::Sampler kind = nn::Sampler::uniform;
  int threads = 1;
  std::uint64_t epochs = 3;
};

struct Result {
  std::vector<std::byte> bits;
  double right = 0;  // share of points whose likeliest class is a label
};

Result result_of(const Run& run) {
  auto context = make_context({.threads = run.threads});
  add_sparse(context);
  models::ExtremeClassifier model(context, options(run.kind));
  optim::RowAdam optimizer(context, model.parameters());
  data::PointSource source(context, points(), {.batch_sequences = 16, .seed = 3});
  train::TrainerOptions settings{.epochs = run.epochs, .learning_rate = 0.01};
  settings.schedule.decay = optim::Decay::constant;
  settings.optimizer = &optimizer;
  train::TrainerBase trainer(context, model, settings);
  trainer.fit(source);
  Result result;
  for (const Parameter& parameter : model.parameters()) {
    const std::vector<std::byte> own = soma_test::bits(context, parameter.value());
    result.bits.insert(result.bits.end(), own.begin(), own.end());
  }
  source.seek({});
  double count = 0;
  for (data::Batch batch; source.next(batch);) {
    const auto best = model.top(batch, 3);
    for (std::size_t i = 0; i < best.size(); ++i, ++count) {
      REQUIRE(best[i].size() == 3);
      const auto labels = batch.label_lists.list(i);
      result.right += std::binary_search(labels.begin(), labels.end(), best[i][0]) ? 1 : 0;
    }
  }
  result.right /= count;
  return result;
}

}  // namespace

TEST_CASE("every sampler learns the classes of points", "[unit]") {
  for (const nn::Sampler kind :
       {nn::Sampler::full, nn::Sampler::uniform, nn::Sampler::lsh_shared}) {
    INFO(nn::sampler_names[static_cast<std::size_t>(kind)]);
    CHECK(result_of({.kind = kind, .epochs = 10}).right > 0.95);
  }
}

TEST_CASE("threads change no bit of a run over very many classes", "[unit][invariance]") {
  for (const nn::Sampler kind :
       {nn::Sampler::full, nn::Sampler::uniform, nn::Sampler::lsh_shared}) {
    INFO(nn::sampler_names[static_cast<std::size_t>(kind)]);
    const std::vector<std::byte> one = result_of({.kind = kind}).bits;
    CHECK(result_of({.kind = kind, .threads = 2}).bits == one);
    CHECK(result_of({.kind = kind, .threads = 8}).bits == one);
  }
}

TEST_CASE("models of very many classes that cannot be are refused", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  CHECK(id_of([&] { models::ExtremeClassifier made(context, {.features = 0, .classes = 3}); }) ==
        "models.config_value");
  CHECK(id_of([&] {
          models::ExtremeClassifier made(
              context, {.features = 1, .classes = std::size_t{1} << 40, .width = 1 << 20});
        }) == "memory.exhausted");
  CHECK(id_of([&] {
          models::ExtremeClassifier made(
              context, {.features = std::size_t{1} << 60, .classes = 1, .width = 1 << 20});
        }) == "base.size_overflow");
  // A rank does not see the labels of the whole batch.
  for (const nn::Sampler kind : {nn::Sampler::uniform, nn::Sampler::lsh_shared}) {
    models::ExtremeClassifier model(context, options(kind));
    CHECK(!model.takes_parts());
  }
  CHECK(models::ExtremeClassifier(context, options(nn::Sampler::full)).takes_parts());
}
