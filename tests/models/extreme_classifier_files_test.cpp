// Very many classes: every sampler learns what a point's features say, the same bits come out for
// any number of threads and of ranks and after interruptions, ranks are refused where they would
// not, and a model is saved and answers as before, by all classes or by hashes.

#include <soma/data/point_source.hpp>
#include <soma/io/checkpoint_folder.hpp>
#include <soma/models/extreme_files.hpp>
#include <soma/parallel/in_process.hpp>
#include <soma/sparse.hpp>
#include <soma/train.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

using namespace soma;
using soma_test::id_of;
using soma_test::read_text;
using soma_test::write_text;

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
  made.feature_standard_deviation = 0.3f;
  made.sampler = {
      .kind = kind, .set = 64, .seed = 3, .refresh_every = 5, .index = {.tables = 8, .codes = 1}};
  return made;
}

constexpr nn::Sampler samplers[] = {nn::Sampler::full, nn::Sampler::uniform,
                                    nn::Sampler::lsh_shared, nn::Sampler::lsh_per_sample};
std::string name_of(nn::Sampler kind) {
  return std::string(nn::sampler_names[static_cast<std::size_t>(kind)]);
}

struct Run {
  nn::Sampler kind = nn::Sampler::uniform;
  int threads = 1;
  std::uint64_t epochs = 3;
  CheckpointStore* store = nullptr;
  std::uint64_t max_steps = 0;
  bool resume = false;
  Communicator* communicator = nullptr;
};

class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              ("soma_extreme_" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
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
  settings.max_steps = run.max_steps;
  settings.checkpoints = run.store;
  settings.resume = run.resume;
  settings.communicator = run.communicator;
  train::Trainer trainer(context, model, settings);
  trainer.fit(source);
  Result result;
  for (const Parameter& parameter : model.parameters()) {
    const std::vector<std::byte> own = soma_test::bits(context, parameter.value());
    result.bits.insert(result.bits.end(), own.begin(), own.end());
  }
  if (run.communicator != nullptr) return result;  // rank by rank on threads of their own
  source.seek({});
  double count = 0;
  for (data::Batch batch; source.next(batch);) {
    const auto best = model.top(batch, 3);
    for (std::size_t i = 0; i < best.size(); ++i, ++count) {
      REQUIRE(best[i].size() == 3);
      const auto labels = batch.label_lists.list(i);
      result.right += std::binary_search(labels.begin(), labels.end(), best[i][0].id) ? 1 : 0;
    }
  }
  result.right /= count;
  return result;
}

}  // namespace

TEST_CASE("every sampler learns the classes of points", "[unit]") {
  for (const nn::Sampler kind : samplers) {
    INFO(name_of(kind));
    CHECK(result_of({.kind = kind, .epochs = 10}).right > 0.95);
  }
}

TEST_CASE("threads and interruptions change no bit of a run over very many classes",
          "[unit][invariance]") {
  const Folder folder;
  for (const nn::Sampler kind : samplers) {
    INFO(name_of(kind));
    const std::vector<std::byte> one = result_of({.kind = kind}).bits;
    CHECK(result_of({.kind = kind, .threads = 2}).bits == one);
    CHECK(result_of({.kind = kind, .threads = 8}).bits == one);
    // The index is refreshed every 5 steps: before its first time, between two, and right at one.
    for (const std::uint64_t steps : {3u, 18u, 40u}) {
      const std::string path = folder / (name_of(kind) + std::to_string(steps));
      CheckpointFolder store(path);
      result_of({.kind = kind, .store = &store, .max_steps = steps});
      const std::string saved =
          path + (steps < 10 ? "/step-000000000" : "/step-00000000") + std::to_string(steps);
      CHECK(std::filesystem::exists(saved + "/weights.safetensors"));
      CHECK(std::filesystem::exists(saved + "/task.safetensors") ==
            (nn::uses_index(kind) && steps > 5));
      CHECK(result_of({.kind = kind, .threads = 2, .store = &store, .resume = true}).bits == one);
    }
  }
}

TEST_CASE("ranks change no bit where sets are drawn evenly, and are refused where hashes choose",
          "[unit][invariance]") {
  for (const nn::Sampler kind : samplers) {
    INFO(name_of(kind));
    const std::vector<std::byte> one =
        nn::uses_index(kind) ? std::vector<std::byte>() : result_of({.kind = kind}).bits;
    for (const int count : {1, 2, 4}) {
      InProcessGroup group(count);
      std::vector<Result> results(static_cast<std::size_t>(count));
      std::vector<std::string> ids(static_cast<std::size_t>(count));
      std::vector<std::thread> ranks;
      for (int rank = 0; rank < count; ++rank)
        ranks.emplace_back([&, rank] {
          InProcessCommunicator communicator(group, rank);
          const auto place = static_cast<std::size_t>(rank);
          ids[place] = id_of(
              [&] { results[place] = result_of({.kind = kind, .communicator = &communicator}); });
        });
      for (std::thread& rank : ranks) rank.join();
      for (std::size_t rank = 0; rank < results.size(); ++rank) {
        CHECK(ids[rank] == (nn::uses_index(kind) ? "train.options" : "no error"));
        CHECK(results[rank].bits == one);
      }
    }
  }
}

TEST_CASE("a model of very many classes is saved, and answers as before", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  models::ExtremeClassifier model(context, options(nn::Sampler::lsh_shared));
  const Folder folder;
  const std::string path = folder / "model";
  models::save_extreme_classifier(model, path);
  const auto loaded = models::load_extreme_classifier(context, path);
  for (std::size_t i = 0; i < model.parameters().size(); ++i)
    CHECK(soma_test::bits(context, loaded->parameters()[i].value()) ==
          soma_test::bits(context, model.parameters()[i].value()));
  Record was, is;
  model.describe(was);
  loaded->describe(is);
  CHECK(id_of([&] { check_identity(was, is); }) == "no error");

  const std::string config = path + "/config.json", whole = read_text(config);
  const auto id_with = [&](std::string_view part, std::string_view by) {
    std::string changed = whole;
    const std::size_t at = changed.find(part);
    REQUIRE(at != changed.npos);
    write_text(config, changed.replace(at, part.size(), by));
    return id_of([&] { models::load_extreme_classifier(context, path); });
  };
  CHECK(id_with("\"hash.version\": 1", "\"hash.version\": 2") == "models.config_value");
  CHECK(id_with("soma_extreme_classifier", "soma_fast_classifier") == "models.config_type");
  CHECK(id_with("lsh_shared", "hashes") == "models.config_value");
  CHECK(id_with("\"classes\": 300", "\"classes\": 301") == "state.shape");
  CHECK(id_with("\"classes\": 300", "\"classes\": 0") == "models.config_value");
  CHECK(id_with("\"classes\": 300", "\"classes\": 4000000000000") == "memory.exhausted");
  CHECK(id_with("\"sampler.set\": 64", "\"sampler.set\": 301") == "train.options");
  CHECK(id_with("\"hash.codes\": 1", "\"hash.codes\": 9") == "operator.value");
  write_text(config, "{");
  CHECK(id_of([&] { models::load_extreme_classifier(context, path); }) == "record.json");
  write_text(config, whole);
  std::filesystem::remove(path + "/model.safetensors");
  CHECK(id_of([&] { models::load_extreme_classifier(context, path); }) == "file.read");
}

TEST_CASE("answers by hashes are those of all classes where all are looked at", "[unit]") {
  auto context = make_context({.threads = 1});
  add_sparse(context);
  models::ExtremeClassifier model(context, options(nn::Sampler::uniform));
  data::PointSource source(context, points(), {.batch_sequences = 32, .shuffle = false});
  data::Batch batch;
  REQUIRE(source.next(batch));
  const auto exact = model.top(batch, 5);
  const Tensor h = model.hidden_of(batch);
  nn::ClassSearch all = model.search({.index = {.tables = 4, .codes = 1}, .head = classes});
  nn::ClassSearch some =
      model.search({.index = {.tables = 16, .codes = 2}, .head = 10, .candidates = 100});
  std::size_t found = 0;
  std::vector<float> own;
  for (std::size_t i = 0; i < 32; ++i) {
    const std::size_t first = source.points().offsets[i], last = source.points().offsets[i + 1];
    model.hidden_of(std::span(source.points().ids).subspan(first, last - first),
                    std::span(source.points().values).subspan(first, last - first), own);
    for (std::size_t c = 0; c < 32; ++c) CHECK(own[c] == h.data<float>()[i * 32 + c]);
    const auto answer = all.top(own.data(), 5);
    REQUIRE(answer.size() == 5);
    for (std::size_t k = 0; k < 5; ++k) {
      CHECK(answer[k].id == exact[i][k].id);
      // Both add up 32 products of numbers below 8.
      CHECK(std::abs(answer[k].logit - exact[i][k].logit) < 8 * 40 * 0x1p-24f);
    }
    CHECK(some.candidates_of(own.data()).size() <= 100);
    found += some.top(own.data(), 1)[0].id == exact[i][0].id ? 1u : 0u;
  }
  // A third of the classes at most is looked at, and not at random.
  CHECK(found >= 16);
  CHECK(id_of([&] { model.search({.candidates = 0}); }) == "operator.value");
  const std::vector<std::int32_t> wrong = {static_cast<std::int32_t>(features)};
  CHECK(id_of([&] { model.hidden_of(wrong, {}, own); }) == "operator.value");
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
  models::ExtremeClassifier model(context, options(nn::Sampler::lsh_shared));
  StateDict state;
  state.set("sampler.rows", Tensor::zeros(context, Shape{2}, DType::int64));
  CHECK(id_of([&] { model.load_state(state); }) == "state.extra_name");
  state.set("sampler.buckets", Tensor::zeros(context, Shape{2, 7}, DType::int32));
  CHECK(id_of([&] { model.load_state(state); }) == "state.shape");
  state.erase("sampler.buckets");
  state.set("sampler.buckets", Tensor::full(context, Shape{2, 8}, std::int32_t{8}));
  CHECK(id_of([&] { model.load_state(state); }) == "operator.value");  // the same row twice
  state.erase("sampler.rows");
  state.set("sampler.rows", Tensor::from<std::int64_t>(context, {1, 5}, Shape{2}));
  CHECK(id_of([&] { model.load_state(state); }) == "operator.value");  // 8 buckets, 0 to 7
  models::ExtremeClassifier plain(context, options(nn::Sampler::uniform));
  CHECK(id_of([&] { plain.load_state(state); }) == "state.extra_name");
}
