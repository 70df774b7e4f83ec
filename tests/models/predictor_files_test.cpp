// Predictor: the answers of TextClassifier and TextEncoder, however the folder is read, weights are
// kept and calls are cut; from many threads; and no memory after the first call of a size.

#include <soma/models.hpp>
#include <soma/soma.hpp>
#include <soma/train.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "support/tensors.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

using namespace soma;
using namespace soma_test;
using models::Predictor;
using models::PredictorOptions;

namespace {

// Texts of 0 to 40 words.
std::vector<std::string> texts_of(std::size_t count) {
  const char* const words[] = {"the", "lamp", "was", "warm", "and", "a", "film", "dull"};
  std::vector<std::string> made;
  DrawSequence draws({.seed = 5, .stream = stream_id("predictor", "texts")});
  for (std::size_t i = 0; i < count; ++i) {
    std::string text;
    for (std::uint32_t j = 0, length = draws.below(i % 5 == 0 ? 41 : 6); j < length; ++j)
      text.append(j == 0 ? "" : " ").append(words[draws.below(8)]);
    made.push_back(text);
  }
  return made;
}

std::vector<std::string_view> views(const std::vector<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

text::Tokenizer tokenizer() {
  text::VocabularyTrainer trainer;
  for (const std::string& text : texts_of(60)) trainer.add(text);
  return text::Tokenizer(trainer.train({.size = 50}), {});
}

models::TextClassifier classifier(Context& context, std::uint64_t seed = 4) {
  return models::TextClassifier(context, tokenizer(),
                                {.vocabulary = 50,
                                 .width = 64,
                                 .layers = 2,
                                 .heads = 2,
                                 .inner = 128,
                                 .positions = 32,
                                 .standard_deviation = 0.3f},
                                {.labels = {"no", "yes"}, .seed = seed});
}

void check_same(const std::vector<models::Prediction>& a,
                const std::vector<models::Prediction>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(a[i].label == b[i].label);
    CHECK(a[i].probabilities == b[i].probabilities);
  }
}

// Counts what the host is asked for.
class CountedMemory final : public std::pmr::memory_resource {
 public:
  std::atomic<std::uint64_t> requests{0};

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    ++requests;
    return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  }
  void do_deallocate(void* data, std::size_t bytes, std::size_t alignment) override {
    std::pmr::new_delete_resource()->deallocate(data, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }
};

}  // namespace

TEST_CASE("a predictor answers as the model, packed or not, in place or read, cut or whole",
          "[unit]") {
  auto context = make_context({.threads = 2});
  const TemporaryFolder folder;
  const models::TextClassifier model = classifier(context);
  model.save(folder / "model");
  const std::vector<std::string> texts = texts_of(23), others = texts_of(24);
  const std::vector<std::string_view> all = views(texts);
  const std::vector<std::string_view> other_views = views(others);
  const std::vector<std::string_view> pairs(other_views.begin() + 1, other_views.end());
  const auto wanted = model.predict(all);
  const models::TextEncoder encoder =
      models::TextEncoder::from_pretrained(context, folder / "model");
  const auto vectors = bits(context, encoder.embed(all));
  for (const bool packed : {false, true})
    for (const bool in_place : {false, true})
      for (const std::size_t most_tokens : {32, 70, 4096}) {
        INFO(packed << in_place << ' ' << most_tokens);
        const Predictor predictor(
            context, folder / "model",
            {.packed = packed, .most_tokens = most_tokens, .in_place = in_place});
        check_same(predictor.predict(all), wanted);
        check_same(predictor.predict(all, pairs), model.predict(all, DType::fp32, pairs));
        CHECK(predictor.predict("").probabilities == std::vector<float>(2));
        CHECK(predictor.predict(texts[5]).probabilities == wanted[5].probabilities);
        CHECK(bits(context, predictor.embed(all)) == vectors);
        CHECK(predictor.predict(std::span<const std::string_view>()).empty());
        CHECK((predictor.bytes().panels != 0) == packed);
        const auto& words = predictor.classifier().model().bert.words.weight;
        CHECK(words.value().storage().writable() == !in_place);
        const models::PredictorStatistics counts = predictor.statistics();
        CHECK(counts.calls == 6);
        CHECK(counts.texts == 3 * 23 + 2);
        CHECK((counts.p50 > 0 && counts.p50 <= counts.p99));
      }
}

TEST_CASE("a predictor reads an encoder's folder, and says what it cannot do", "[unit]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  const models::TextClassifier model = classifier(context);
  model.save(folder / "model");
  const models::TextEncoder encoder(context, tokenizer(), model.model(),
                                    {.pooling = models::Pooling::max, .normalised = true});
  encoder.save(folder / "encoder");
  const std::vector<std::string> texts = texts_of(9);
  const Predictor predictor(context, folder / "encoder", {.packed = true});
  CHECK(bits(context, predictor.embed(views(texts))) == bits(context, encoder.embed(views(texts))));
  CHECK(predictor.embed({}).shape() == Shape{0, 64});
  CHECK(id_of([&] { predictor.predict("a lamp"); }) == "state.missing_name");
  CHECK(id_of([&] { Predictor(context, folder / "model", {.lanes = 0}); }) == "models.predictor");
  const Predictor narrow(context, folder / "model", {.most_tokens = 31});
  std::string long_text;
  for (int i = 0; i < 40; ++i) long_text += "lamp ";
  const std::vector<std::string> longest{"lamp", long_text};
  REQUIRE(model.tokenizer().encode(long_text, {.max_length = 32}).ids.size() == 32);
  CHECK(id_of([&] { narrow.predict(views(longest)); }) == "models.predictor");
  const std::string message = message_of([&] { narrow.embed(views(longest)); });
  CHECK((message.find("31") != message.npos && message.find("32") != message.npos));
}

TEST_CASE("a folder that is replaced while it is open keeps its answers", "[unit]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  const std::vector<std::string> texts = texts_of(7);
  classifier(context, 4).save(folder / "model");
  const Predictor predictor(context, folder / "model");
  const auto before = predictor.predict(views(texts));
  classifier(context, 5).save(folder / "model");
  check_same(predictor.predict(views(texts)), before);
  const Predictor later(context, folder / "model");
  CHECK(later.predict("the lamp").probabilities != predictor.predict("the lamp").probabilities);
}

TEST_CASE("calls from many threads have the answers of one", "[unit]") {
  auto context = make_context({.threads = 2});
  const TemporaryFolder folder;
  classifier(context).save(folder / "model");
  const std::vector<std::string> texts = texts_of(16);
  const std::vector<std::string_view> all = views(texts);
  for (const std::size_t lanes : {1, 3}) {
    const Predictor predictor(context, folder / "model",
                              {.packed = true, .most_tokens = 64, .lanes = lanes});
    const auto wanted = predictor.predict(all);
    const auto vectors = bits(context, predictor.embed(all));
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < 8; ++thread)
      threads.emplace_back([&, thread] {
        for (std::size_t call = 0; call < 1000; ++call) {
          const std::size_t first = (thread + call) % 16, count = 1 + call % 3;
          const auto some =
              std::span(all).subspan(first, (std::min)(count, std::size_t{16} - first));
          if (call % 4 == 3) {
            const auto found = bits(context, predictor.embed(some));
            if (!std::equal(found.begin(), found.end(),
                            vectors.begin() + static_cast<std::ptrdiff_t>(first * 64 * 4)))
              ++wrong;
          } else {
            const auto found = predictor.predict(some);
            for (std::size_t i = 0; i < some.size(); ++i)
              if (found[i].probabilities != wanted[first + i].probabilities) ++wrong;
          }
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(predictor.statistics().calls == 8002);
  }
}

TEST_CASE("after the first call of a size a predictor asks the host for no memory", "[unit]") {
  CountedMemory memory;
  auto context = make_context({.memory = &memory, .threads = 2});
  const TemporaryFolder folder;
  classifier(context).save(folder / "model");
  const std::vector<std::string> texts = texts_of(16);
  const Predictor predictor(context, folder / "model", {.packed = true});
  predictor.warm(600);
  std::uint64_t before = memory.requests;
  for (int i = 0; i < 3; ++i) predictor.predict(views(texts));
  CHECK(memory.requests == before);
  predictor.embed(views(texts));
  before = memory.requests;
  for (int i = 0; i < 3; ++i) predictor.embed(views(texts));
  CHECK(memory.requests == before);
  const models::PredictorBytes bytes = predictor.bytes();
  // Embeddings, two layers, pooler and head of 64 wide: each weight matrix once.
  CHECK(bytes.weights > (50 + 32 + 2 * (4 * 64 + 2 * 128) + 64) * 64 * sizeof(float));
  CHECK(bytes.workspace > 0);
}

#if defined(__linux__)

TEST_CASE("originals of packed weights are given back, and answers keep their bits", "[unit]") {
  auto context = make_context({.threads = 1});
  const TemporaryFolder folder;
  const std::string path = folder / "model";
  classifier(context).save(path);
  const Predictor predictor(context, path, {.packed = true});
  const std::vector<std::string> texts = texts_of(40);
  // Texts of 15 and 16 tokens among them: such products read the weights themselves.
  const auto wanted = predictor.predict(views(texts));
  std::vector<models::Prediction> alone;
  for (const std::string& text : texts) alone.push_back(predictor.predict(text));
  const std::size_t released = predictor.release_originals();
  CHECK(released > 0);
  CHECK(released <= predictor.bytes().panels);
  check_same(predictor.predict(views(texts)), wanted);
  for (std::size_t i = 0; i < texts.size(); ++i)
    check_same({predictor.predict(texts[i])}, {alone[i]});

  const Predictor plain(context, path), read(context, path, {.packed = true, .in_place = false});
  CHECK(id_of([&] { plain.release_originals(); }) == "models.predictor");
  CHECK(id_of([&] { read.release_originals(); }) == "models.predictor");
  // Nothing is packed before the first answer.
  CHECK(Predictor(context, path, {.packed = true}).release_originals() == 0);
}

#endif
