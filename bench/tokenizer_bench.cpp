// Text to token ids: one text after another, and many at once.
//
//   build/release/bin/soma_bench --benchmark_filter=tokenizer --benchmark_repetitions=7
//
// The text is generated: words of the vocabulary and words made of its pieces, some accents and
// punctuation. SOMA_BENCH_TEXT and SOMA_BENCH_VOCABULARY name a text file, a text a line, and a
// vocab.txt to measure with instead.

#include <soma/soma.hpp>
#include <soma/text/train_vocabulary.hpp>

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace {

using soma::text::Tokenizer;
using soma::text::Vocabulary;

std::vector<std::string> generated_texts() {
  const std::vector<std::string> syllables{"ta", "re", "ing", "con", "es", "the", "mi", "lo", "un",
                                           "er", "st", "a",   "pro", "ly", "ed",  "qu", "or", "en"};
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    std::string text;
    for (std::uint64_t k = 0; k < 60; ++k) {
      const auto random = soma::philox4x32_10(
          {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(k), 0, 0}, {1, 2});
      // Cubed, so that a few words are most of the text.
      const double x = static_cast<double>(random[0]) * 0x1p-32;
      auto word = static_cast<std::size_t>(x * x * x * 20000);
      if (!text.empty()) text += k % 11 == 10 ? ", " : " ";
      const std::size_t begin = text.size();
      for (std::size_t part = 0; part == 0 || word > 0; ++part, word /= syllables.size())
        text += syllables[word % syllables.size()];
      if (random[1] % 8 == 0) text[begin] = static_cast<char>(text[begin] - 32);
      if (random[1] % 97 == 0) text += "\xC3\xA9";
    }
    texts.push_back(text + ".");
  }
  return texts;
}

std::vector<std::string> lines_of(const std::string& content) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t end = std::min(content.find('\n', at), content.size());
    lines.push_back(content.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

struct Case {
  std::vector<std::string> texts;
  Tokenizer tokenizer;
  std::size_t bytes = 0;
};

const Case& shared_case() {
  static const Case ready = [] {
    const char* file = std::getenv("SOMA_BENCH_TEXT");
    const char* vocabulary = std::getenv("SOMA_BENCH_VOCABULARY");
    auto texts =
        file == nullptr ? generated_texts() : lines_of(soma::text::read_file("soma_bench", file));
    Tokenizer tokenizer(vocabulary == nullptr ? soma::text::train_vocabulary(texts, {.size = 8192})
                                              : Vocabulary::read(vocabulary));
    Case made{std::move(texts), std::move(tokenizer)};
    for (const std::string& text : made.texts) made.bytes += text.size();
    return made;
  }();
  return ready;
}

void tokenizer_one_by_one(benchmark::State& state) {
  const Case& shared = shared_case();
  std::vector<std::int32_t> ids;
  for (auto _ : state) {
    for (const std::string& text : shared.texts) {
      ids.clear();
      shared.tokenizer.encode_ids(text, 512, ids);
      benchmark::DoNotOptimize(ids.data());
    }
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(shared.bytes));
}
BENCHMARK(tokenizer_one_by_one)->Name("tokenizer/one_by_one")->Unit(benchmark::kMillisecond);

void tokenizer_many(benchmark::State& state) {
  const Case& shared = shared_case();
  auto context = soma::make_context({.threads = static_cast<int>(state.range(0))});
  for (auto _ : state) {
    const auto found = shared.tokenizer.encode_all<std::string>(context, shared.texts, 512);
    benchmark::DoNotOptimize(found.ids.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(shared.bytes));
}
BENCHMARK(tokenizer_many)
    ->Name("tokenizer/encode_all")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void tokenizer_offsets(benchmark::State& state) {
  const Case& shared = shared_case();
  for (auto _ : state)
    for (const std::string& text : shared.texts)
      benchmark::DoNotOptimize(shared.tokenizer.encode(text, {.offsets = true}).ids.data());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(shared.bytes));
}
BENCHMARK(tokenizer_offsets)->Name("tokenizer/offsets")->Unit(benchmark::kMillisecond);

void tokenizer_train(benchmark::State& state) {
  const Case& shared = shared_case();
  for (auto _ : state)
    benchmark::DoNotOptimize(soma::text::train_vocabulary(shared.texts, {.size = 8192}).size());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(shared.bytes));
}
BENCHMARK(tokenizer_train)->Name("tokenizer/train_8192")->Unit(benchmark::kMillisecond);

}  // namespace
