// Generating: the bits of kept keys and values, texts that depend on nothing but their prompts and
// options, ends of texts, and refusals.

#include <soma/decoders.hpp>
#include <soma/nn/key_value_cache.hpp>
#include <soma/nn/precision_state.hpp>

#include "catch.hpp"
#include "io/samples.hpp"
#include "support/errors.hpp"
#include "support/every_target.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

namespace {

using namespace soma;
using models::GeneratedText;
using models::GenerationConfig;
using models::LanguageModel;
using models::TextEnd;
using models::TextGenerator;
using soma_test::id_of;
using soma_test::message_of;

std::string folder_of_texts(const std::string& name) {
  return std::string(SOMA_TEST_DECODERS) + "/" + name;
}

// Tokens are bytes; no token begins or ends a text.
text::ByteTokenizer bytes_tokenizer() {
  text::ByteTokenizerParts parts;
  for (int byte = 0; byte < 256; ++byte) parts.pieces.emplace_back(1, static_cast<char>(byte));
  return text::ByteTokenizer(parts);
}

// Models of two layers that are wide enough for every way of multiplying, with random weights.
LanguageModel made(Context& context, models::DecoderKind kind, std::size_t positions = 1024) {
  const bool gpt2 = kind == models::DecoderKind::gpt2;
  models::DecoderConfigFile file{.config = models::DecoderConfig::of(kind)};
  models::DecoderConfig& config = file.config;
  config.vocabulary = 320;
  config.layers = 2;
  config.positions = positions;
  config.layer.width = 128;
  config.layer.heads = 4;
  config.layer.inner = 160;
  if (!gpt2) config.layer.key_value_heads = 2, config.tied = true;
  config.layer.standard_deviation = 0.2f;  // scores that differ
  return LanguageModel(context, bytes_tokenizer(), file, {.seed = 5, .dropout = 0});
}

void store_as(Context& context, const LanguageModel& model, DType dtype) {
  for (const Parameter& parameter : model.parameters())
    if (parameter.var.value().rank() == 2 && parameter.var.value().dtype() != dtype)
      parameter.var.set_value(run(context, *context.built_in().cast, CastSetting{.dtype = dtype},
                                  {parameter.var.value()})[0]);
}

std::vector<std::int32_t> some_ids(std::size_t count, std::size_t first) {
  std::vector<std::int32_t> ids;
  for (std::size_t i = 0; i < count; ++i)
    ids.push_back(static_cast<std::int32_t>((first * 31 + i * i * 7 + i * 13) % 300));
  return ids;
}

// The scores of all rows of some sequences, at once.
Tensor scores_of(Context& context, const LanguageModel& model, const TapeOptions& options,
                 const std::vector<std::vector<std::int32_t>>& lists) {
  Tape tape(context, options);
  const Var ids = tape.constant(
      make_ragged<std::int32_t>(context, std::span<const std::vector<std::int32_t>>(lists)));
  return contiguous(context, model.model().logits(tape, model.model()(tape, ids)).value());
}

// The rows whose bits differ if the sequences come in parts of `part` rows each.
std::size_t differing_rows(Context& context, const LanguageModel& model, const TapeOptions& options,
                           const std::vector<std::vector<std::int32_t>>& lists, std::size_t part) {
  const models::DecoderConfig& config = model.config();
  const Tensor whole = scores_of(context, model, options, lists);
  nn::KeyValueCache cache(context, config.layers, config.layer.groups() * config.layer.head_size(),
                          options.activations);
  std::vector<std::size_t> begins;
  std::size_t rows = 0, longest = 0, differ = 0;
  for (const auto& list : lists) {
    cache.add();
    begins.push_back(rows);
    rows += list.size();
    longest = (std::max)(longest, list.size());
  }
  const std::size_t bytes = config.vocabulary * sizeof(float);
  for (std::size_t at = 0; at < longest; at += part) {
    std::vector<std::size_t> counts;
    std::vector<std::int32_t> ids;
    for (const auto& list : lists) {
      const std::size_t first = (std::min)(at, list.size()),
                        end = (std::min)(at + part, list.size());
      counts.push_back(end - first);
      ids.insert(ids.end(), list.begin() + static_cast<std::ptrdiff_t>(first),
                 list.begin() + static_cast<std::ptrdiff_t>(end));
    }
    Tape tape(context, options);
    cache.begin(counts);
    const Var step =
        tape.constant(Tensor::from<std::int32_t>(context, ids, Shape{ids.size()}), cache.step());
    const Tensor own = contiguous(
        context, model.model().logits(tape, model.model().continued(tape, step, cache)).value());
    cache.end();
    std::size_t row = 0;
    for (std::size_t i = 0; i < lists.size(); ++i)
      for (std::size_t k = 0; k < counts[i]; ++k, ++row)
        differ += std::memcmp(own.raw() + row * bytes, whole.raw() + (begins[i] + at + k) * bytes,
                              bytes) != 0;
  }
  return differ;
}

std::vector<std::string> some_prompts(std::size_t count) {
  const std::string text =
      "Dear all, the train of 8:15 is late again, as it was on Monday and on Tuesday. We wait at "
      "the platform; the café opens at nine. Yours, the people of platform 3.";
  std::vector<std::string> prompts;
  for (std::size_t i = 0; i < count; ++i) prompts.push_back(text.substr(i * 3, 4 + i * i * 5 % 60));
  for (std::string& prompt : prompts)  // no part of é
    if (const std::size_t at = prompt.find('\xc3'); at != prompt.npos) prompt.resize(at);
  return prompts;
}

models::GeneratorOptions drawn(std::size_t max_new = 40) {
  models::GeneratorOptions options{.max_new = max_new, .seed = 9, .log_probabilities = true};
  options.config.emplace();
  options.config->sampling = {.temperature = 1, .top_k = 60, .top_p = 0.98f};
  return options;
}

bool same(const GeneratedText& a, const GeneratedText& b) {
  return a.ids == b.ids && a.text == b.text && a.end == b.end &&
         a.log_probabilities == b.log_probabilities;
}

}  // namespace

TEST_CASE("scores of later rows have the bits of whole sequences", "[unit][models][invariance]") {
  const std::vector<std::vector<std::int32_t>> lists{some_ids(70, 1), some_ids(1, 2),
                                                     some_ids(131, 3)};
  for (const auto kind : {models::DecoderKind::gpt2, models::DecoderKind::llama}) {
    soma_test::on_every_target([&](Context& context) {
      const LanguageModel model = made(context, kind);
      const auto check = [&](TapeOptions options, const std::string& what) {
        INFO(what);
        options.record = options.training = false;
        for (const std::size_t part : {1u, 7u, 512u})
          CHECK(differing_rows(context, model, options, lists, part) == 0);
      };
      check({}, "fp32");
      for (const char* name : {"fp8_rowwise", "fp8_block", "mxfp8"}) {
        PrecisionState formats(context, Precision::named(name), 1);
        check({.activations = formats.activations(), .precision = &formats}, name);
      }
      PrecisionState biased(context, Precision::cfp8(7, 7, 15), 1);
      check({.activations = biased.activations(), .precision = &biased}, "cfp8");
      PackedWeights packed(context);
      check({.packed = &packed}, "packed");
      store_as(context, model, DType::bf16);
      check({.activations = DType::bf16}, "bf16_sr");
      PackedWeights packed_bf16(context);
      check({.activations = DType::bf16, .packed = &packed_bf16}, "bf16_sr, packed");
    });
  }
}

TEST_CASE("kept rows move and go with their sequences", "[unit][models]") {
  auto context = make_context({.threads = 1});
  nn::KeyValueCache cache(context, 2, 3);  // [rows, 6]
  const auto step = [&](const std::vector<std::size_t>& counts, float value) {
    cache.begin(counts);
    const Tensor rows = Tensor::full(context, Shape{cache.step().rows(), 10}, value);
    for (std::size_t layer = 0; layer < 2; ++layer) cache.append(layer, rows);
    cache.end();
  };
  const auto row = [&](std::size_t sequence, std::size_t at) {
    cache.begin(std::vector<std::size_t>(cache.count(), 0));
    const Tensor all = cache.append(1, Tensor::zeros(context, Shape{0, 10}));
    return all.data<float>()[(cache.sequences().begin(sequence) + at) * 6 + 5];
  };
  cache.add();
  cache.add();
  step({3, 60}, 1);
  step({0, 70}, 2);  // beyond the room
  cache.add();
  step({1, 0, 2}, 3);
  CHECK(cache.rows(0) == 4);
  CHECK(cache.rows(1) == 130);
  CHECK(row(0, 2) == 1);
  CHECK(row(0, 3) == 3);
  CHECK(row(1, 59) == 1);
  CHECK(row(1, 129) == 2);
  const std::size_t before = cache.bytes();
  cache.remove(0);
  CHECK(cache.bytes() < before);
  CHECK(row(0, 59) == 1);
  CHECK(row(0, 129) == 2);
  CHECK(row(1, 1) == 3);
  CHECK(cache.bytes() <=
        nn::KeyValueCache::most_bytes(2, 3, DType::fp32, std::vector<std::size_t>{130, 2}));
  CHECK(id_of([&] { cache.begin(std::vector<std::size_t>{1}); }) == "tensor.shape");
  cache.begin(std::vector<std::size_t>{1, 0});
  CHECK(id_of([&] { cache.append(0, Tensor::zeros(context, Shape{1, 5})); }) == "tensor.shape");
  CHECK(id_of([&] {
          cache.append(0, Tensor::zeros(context, Shape{1, 6}, DType::bf16));
        }) == "tensor.dtype");
}

TEST_CASE("a text is the same alone and in any batch, parts and threads",
          "[unit][models][invariance]") {
  const std::vector<std::string> prompts = some_prompts(17);
  for (const auto kind : {models::DecoderKind::gpt2, models::DecoderKind::llama}) {
    std::vector<GeneratedText> first;
    for (const int threads : {1, 2, 3, 7}) {
      auto context = make_context({.threads = threads});
      const LanguageModel model = made(context, kind);
      const auto check = [&](models::GeneratorOptions options, std::size_t count) {
        INFO(threads << " threads, " << options.at_once << " at once, parts of " << options.part
                     << ", " << count << " prompts");
        const TextGenerator generator(context, model, options);
        const auto texts = generator.generate(std::span<const std::string>(prompts).first(count));
        if (first.empty()) first = texts;
        for (std::size_t i = 0; i < count; ++i) CHECK(same(texts[i], first[i]));
      };
      models::GeneratorOptions options = drawn();
      check(options, 17);
      for (const std::size_t part : {1u, 7u}) {
        options.part = part;
        check(options, 3);
      }
      options = drawn();
      for (const std::size_t at_once : {1u, 3u, 17u}) {
        options.at_once = at_once;
        options.packed = at_once == 3;
        check(options, at_once == 1 ? 3 : 17);
      }
      options = drawn();
      for (std::size_t i = 14; i < 17; ++i) {  // alone, with its number
        options.first_prompt = i;
        CHECK(same(TextGenerator(context, model, options).generate(prompts[i]), first[i]));
      }
    }
    // The draws are draws: other seeds and numbers, other texts.
    auto context = make_context({.threads = 1});
    const LanguageModel model = made(context, kind);
    models::GeneratorOptions options = drawn();
    options.seed = 10;
    CHECK_FALSE(same(TextGenerator(context, model, options).generate(prompts[0]), first[0]));
    options = drawn();
    options.first_prompt = 1;
    CHECK_FALSE(same(TextGenerator(context, model, options).generate(prompts[0]), first[0]));
  }
}

TEST_CASE("greedy texts take the best score, and log-probabilities are the model's",
          "[unit][models]") {
  auto context = make_context({.threads = 2});
  const LanguageModel model = made(context, models::DecoderKind::llama);
  const TextGenerator generator(context, model, {.max_new = 30, .log_probabilities = true});
  const GeneratedText text = generator.generate("the train");
  std::vector<std::int32_t> ids = generator.prompt_ids("the train");
  CHECK(text.prompt_tokens == ids.size());
  const std::size_t prompt = ids.size();
  ids.insert(ids.end(), text.ids.begin(), text.ids.end());
  const Tensor scores = scores_of(context, model, {.record = false, .training = false}, {ids});
  const std::size_t tokens = model.tokenizer().id_count();
  for (std::size_t i = 0; i < text.ids.size(); ++i) {
    const float* const row = scores.data<float>() + (prompt - 1 + i) * model.config().vocabulary;
    // Rows of the table beyond the tokenizer's ids never come.
    CHECK(text.ids[i] == std::max_element(row, row + tokens) - row);
    double sum = 0;
    for (std::size_t k = 0; k < model.config().vocabulary; ++k)
      sum += std::exp(static_cast<double>(row[k]));
    const double wanted = static_cast<double>(row[text.ids[i]]) - std::log(sum);
    // Rounded once to float.
    CHECK(std::abs(static_cast<double>(text.log_probabilities[i]) - wanted) <=
          std::abs(wanted) * 0x1p-23 + 1e-12);
  }
  const models::GeneratorStatistics counts = generator.statistics();
  CHECK(counts.prompt_tokens == prompt);
  CHECK(counts.new_tokens == text.ids.size());
  CHECK(counts.steps + 1 == text.ids.size());
}

TEST_CASE("ids without a token are never drawn", "[unit][models]") {
  auto context = make_context({.threads = 1});
  const LanguageModel model = made(context, models::DecoderKind::gpt2);
  // The table has rows that no token has, and these get the best scores.
  const Tensor table = model.model().head_weight().value();
  const std::size_t ids = model.tokenizer().id_count(), width = table.size(1);
  for (std::size_t id = ids; id < model.config().vocabulary; ++id)
    for (std::size_t i = 0; i < width; ++i) table.mutable_data<float>()[id * width + i] *= 30;
  models::GeneratorOptions options = drawn(60);
  options.config->sampling = {.temperature = 3};
  for (const std::string& prompt : some_prompts(4))
    for (const std::int32_t id : TextGenerator(context, model, options).generate(prompt).ids)
      CHECK(static_cast<std::size_t>(id) < ids);
}

TEST_CASE("texts end where they should, and say why", "[unit][models]") {
  auto context = make_context({.threads = 1});
  const LanguageModel model = made(context, models::DecoderKind::gpt2);
  const std::string prompt = "the train is";
  const GeneratedText whole = TextGenerator(context, model, drawn()).generate(prompt);
  REQUIRE(whole.end == TextEnd::most_tokens);
  REQUIRE(whole.ids.size() == 40);
  REQUIRE(whole.text == model.tokenizer().decode(whole.ids));

  // Any of several ids ends a text: here the one that comes after ten others.
  models::GeneratorOptions options = drawn();
  std::size_t at = 10;
  while (std::find(whole.ids.begin(), whole.ids.begin() + static_cast<std::ptrdiff_t>(at),
                   whole.ids[at]) != whole.ids.begin() + static_cast<std::ptrdiff_t>(at))
    ++at;
  options.config->end_ids = {7, whole.ids[at]};
  if (std::find(whole.ids.begin(), whole.ids.end(), 7) != whole.ids.end())
    options.config->end_ids = {whole.ids[at]};
  const GeneratedText ended = TextGenerator(context, model, options).generate(prompt);
  CHECK(ended.end == TextEnd::end_token);
  CHECK(ended.ids.size() == at + 1);
  CHECK(ended.text == model.tokenizer().decode(std::span<const std::int32_t>(whole.ids).first(at)));

  // Stop texts of every place and length: the text ends before the first, whatever the tokens are.
  for (std::size_t begin = 3; begin + 4 < whole.text.size(); begin += 5)
    for (const std::size_t length : {1u, 4u}) {
      const std::string stop = whole.text.substr(begin, length);
      options = drawn();
      options.config->stop_texts = {"\n\n\n\n\nnever", stop};
      std::string shown;
      bool last = false;
      const GeneratedText text = TextGenerator(context, model, options)
                                     .generate(prompt, [&](const models::GeneratedPiece& piece) {
                                       CHECK_FALSE(last);
                                       shown += piece.text;
                                       last = piece.last;
                                     });
      CHECK(text.end == TextEnd::stop_text);
      CHECK(text.text == whole.text.substr(0, whole.text.find(stop)));
      CHECK(shown == text.text);
      CHECK(last);
    }

  // max_length counts the prompt, max_new_tokens wins.
  options = drawn(0);
  options.config->most_rows = whole.prompt_tokens + 6;
  CHECK(TextGenerator(context, model, options).generate(prompt).ids.size() == 6);
  options.config->max_new = 9;
  CHECK(TextGenerator(context, model, options).generate(prompt).ids.size() == 9);

  StopFlag stop;
  options = drawn();
  options.stop = &stop;
  std::size_t tokens = 0;
  const TextGenerator stoppable(context, model, options);
  const auto texts = stoppable.generate(some_prompts(3), [&](const models::GeneratedPiece&) {
    if (++tokens == 12) stop.request();
  });
  for (const GeneratedText& text : texts) {
    CHECK(text.end == TextEnd::stopped);
    CHECK(text.ids.size() <= 12);
  }
}

TEST_CASE("a text ends with the model's last position", "[unit][models]") {
  auto context = make_context({.threads = 2});
  const LanguageModel model = made(context, models::DecoderKind::gpt2, 1024);
  std::string prompt;
  while (prompt.size() + 11 <= 1015) prompt += "on Monday, ";
  models::GeneratorOptions options = drawn(100);
  const TextGenerator generator(context, model, options);
  const std::size_t rows = generator.prompt_ids(prompt).size();
  const GeneratedText text = generator.generate(prompt);
  CHECK(text.end == TextEnd::last_position);
  CHECK(rows + text.ids.size() == 1025);  // the 1,024th row predicts a token, which has no row
  // The whole forward gives the same last score.
  std::vector<std::int32_t> ids = generator.prompt_ids(prompt);
  ids.insert(ids.end(), text.ids.begin(), text.ids.end() - 1);
  const Tensor scores = scores_of(context, model, {.record = false, .training = false}, {ids});
  const std::size_t width = model.config().vocabulary;
  CHECK(models::log_probability({scores.data<float>() + 1023 * width, width}, text.ids.back()) ==
        text.log_probabilities.back());
  prompt += "on Monday, on Tuesday";
  CHECK(id_of([&] { generator.generate(prompt); }) == "models.sequence_length");
}

TEST_CASE("ends of three files count", "[unit][models]") {
  auto context = make_context({.threads = 1});
  const std::string folder = folder_of_texts("texts_gpt2");
  const soma_test::TemporaryFolder place;
  std::filesystem::copy(folder, place / "model");
  const auto put = [&](const char* name, const char* key, const nlohmann::json& value) {
    nlohmann::json root = nlohmann::json::parse(soma_test::read_text(folder + "/" + name));
    root[key] = value;
    const std::string path = place / "model/" + name;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    std::ofstream(path) << root.dump();
  };
  put("config.json", "eos_token_id", {11, 12});
  put("generation_config.json", "eos_token_id", {12, 13});
  const LanguageModel model = LanguageModel::from_pretrained(context, place / "model");
  const TextGenerator generator(context, model);
  const std::vector<std::int32_t> ends(generator.end_ids().begin(), generator.end_ids().end());
  CHECK(ends == std::vector<std::int32_t>{11, 12, 13, model.tokenizer().end_id()});
}

TEST_CASE("characters are shown whole", "[unit][models]") {
  // Tokens are bytes, and two of them the middle of an emoji.
  text::ByteTokenizerParts parts;
  for (int byte = 0; byte < 256; ++byte) parts.pieces.emplace_back(1, static_cast<char>(byte));
  parts.pieces.emplace_back("\x9f\x98");
  const text::ByteTokenizer tokenizer(parts);
  const std::vector<std::string> none, stops{"!?", "\xf0\x9f\x98\x80."};
  models::ShownText plain(tokenizer, none);
  CHECK(plain.add(0xf0).empty());
  CHECK(plain.add(256).empty());
  CHECK(plain.add(0x80) == "\xf0\x9f\x98\x80");
  CHECK(plain.add(0xf0).empty());
  CHECK(plain.finish() == "\xef\xbf\xbd");
  models::ShownText stopping(tokenizer, stops);
  CHECK(stopping.add('!').empty());  // may begin a stop text
  CHECK(stopping.add('!') == "!");
  CHECK(stopping.add('a') == "!a");
  CHECK(stopping.add(0xf0).empty());
  CHECK(stopping.add(256).empty());
  CHECK(stopping.add(0x80).empty());
  CHECK_FALSE(stopping.stopped());
  CHECK(stopping.add('.').empty());
  CHECK(stopping.stopped());
  CHECK(stopping.finish().empty());
  models::ShownText ending(tokenizer, stops);
  CHECK(ending.add('!').empty());
  CHECK(ending.finish() == "!");
}

TEST_CASE("a space behind a prompt is kept where tokenizers take the first away",
          "[unit][models]") {
  text::ByteTokenizerParts parts;
  parts.byte_level = false;
  parts.pieces = {"\xe2\x96\x81"};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    parts.pieces.emplace_back(name);
  }
  parts.pieces.insert(parts.pieces.end(), {"\xe2\x96\x81is", "\xe2\x96\x81Paris"});
  parts.normalization.prepend = true;
  const text::ByteTokenizer tokenizer(parts);
  const std::vector<std::string> none;
  const std::vector<std::int32_t> prompt{257};
  CHECK(models::ShownText(tokenizer, none, prompt).add(258) == " Paris");
  CHECK(models::ShownText(tokenizer, none).add(258) == "Paris");
}

TEST_CASE("what generating refuses", "[unit][models]") {
  auto context = make_context({.threads = 1});
  const LanguageModel model = made(context, models::DecoderKind::llama);
  const auto says = [&](const models::GeneratorOptions& options, const std::string& prompt = "a") {
    return message_of([&] { TextGenerator(context, model, options).generate(prompt); });
  };
  CHECK(says({.at_once = 0}) ==
        "TextGenerator: at_once is 0, wanted at least 1 [models.generator]");
  CHECK(says({.part = 0}) == "TextGenerator: part is 0, wanted at least 1 [models.generator]");
  const auto sampled = [](const models::SamplingOptions& sampling) {
    return models::GeneratorOptions{.config = GenerationConfig{.sampling = sampling}};
  };
  for (const models::SamplingOptions& sampling :
       {models::SamplingOptions{.temperature = -1},
        {.temperature = std::numeric_limits<float>::infinity()},
        {.temperature = std::numeric_limits<float>::quiet_NaN()},
        {.top_p = 1.5f},
        {.top_p = -0.5f},
        {.min_p = 2},
        {.repetition_penalty = 0}}) {
    const std::string message = says(sampled(sampling));
    INFO(message);
    CHECK(message.find("[operator.value]") != message.npos);
  }
  CHECK(says({.max_new = 50, .most_bytes = 1000})
            .find("most_bytes is 1000, and keys and values of 1 texts may take") !=
        std::string::npos);
  CHECK(says({.config = GenerationConfig{.stop_texts = {""}}}).find("stop_texts") !=
        std::string::npos);

  // Scales that depend on the batch, or on steps that are not there.
  for (const char* name : {"fp8_current", "fp8_delayed"}) {
    PrecisionState formats(context, Precision::named(name), 1);
    const std::string message = says({.precision = &formats});
    INFO(message);
    CHECK(message.find("[models.generator]") != message.npos);
  }

  // A prompt without a token.
  CHECK(says({.max_new = 2}, "") ==
        "TextGenerator: prompt is without a token, wanted a text: the tokenizer's files name no "
        "bos_token to begin with [models.generator]");
  for (const char* name : {"texts_gpt2", "texts_llama"}) {
    const LanguageModel with = LanguageModel::from_pretrained(context, folder_of_texts(name));
    const TextGenerator generator(context, with, {.max_new = 2});
    CHECK(generator.prompt_ids("") == std::vector<std::int32_t>{with.tokenizer().start_id()});
    CHECK(generator.generate("").prompt_tokens == 1);
    if (!with.tokenizer().before().empty())
      CHECK(generator.prompt_ids("<s>a") == generator.prompt_ids("a"));  // once
  }

  // A stage of a pipeline has some of the weights.
  const Var dropped = model.model().layers[1].outer.weight;
  const Tensor value = dropped.value();
  dropped.drop_value();
  CHECK(says({}).find("a whole model: texts are not generated by the stages of a pipeline "
                      "[models.generator]") != std::string::npos);
  dropped.set_value(value);

  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Tensor bias = model.model().norm.root.weight.value();
    const float before = bias.data<float>()[3];
    bias.mutable_data<float>()[3] = bad;
    const std::string message = says({.max_new = 2});
    INFO(message);
    CHECK(message.find("TextGenerator: score of token 0 is ") == 0);
    CHECK(message.find("[models.not_finite]") != message.npos);
    bias.mutable_data<float>()[3] = before;
  }
  CHECK(says({.max_new = 2}) == "no error");
}

TEST_CASE("generating needs the memory that was predicted", "[unit][models]") {
  for (const bool packed : {false, true}) {
    auto context = make_context({.threads = 1});
    const LanguageModel model = made(context, models::DecoderKind::llama);
    const std::vector<std::string> prompts = some_prompts(12);
    models::GeneratorOptions options = drawn(120);
    options.packed = packed;
    const TextGenerator generator(context, model, options);
    std::vector<std::size_t> rows;
    for (const std::string& prompt : prompts)
      rows.push_back(generator.prompt_ids(prompt).size() + 120);
    const models::GeneratorBytes predicted =
        models::generator_bytes(model.config(), options, DType::fp32, rows);
    generator.generate(prompts);
    const double share =
        static_cast<double>(context.heap().peak_bytes()) / static_cast<double>(predicted.total());
    INFO(packed << ' ' << share);
    CHECK(share > 0.5);
    CHECK(share < 1);
    options.most_bytes = predicted.cache - 1;
    CHECK(id_of([&] { TextGenerator(context, model, options).generate(prompts); }) ==
          "models.generator");
    options.most_bytes = predicted.cache;
    CHECK(id_of([&] { TextGenerator(context, model, options).generate(prompts); }) == "no error");
  }
}

TEST_CASE("a folder's weights are read in place with the same texts", "[unit][models]") {
  auto context = make_context({.threads = 1});
  for (const char* name : {"texts_gpt2", "texts_llama"}) {
    const std::string folder = folder_of_texts(name);
    for (const DType weights : {DType::fp32, DType::bf16}) {
      LanguageModel copied = LanguageModel::from_pretrained(context, folder);
      store_as(context, copied, weights);
      const LanguageModel placed =
          LanguageModel::from_pretrained(context, folder, {.weights = weights, .in_place = true});
      models::GeneratorOptions options = drawn(12);
      options.activations = weights;
      CHECK(same(TextGenerator(context, copied, options).generate("the tr"),
                 TextGenerator(context, placed, options).generate("the tr")));
      options.packed = true;
      CHECK(same(TextGenerator(context, copied, options).generate("the tr"),
                 TextGenerator(context, placed, options).generate("the tr")));
    }
  }
}

TEST_CASE("the most tokens of a text, by option and file", "[unit][models]") {
  using models::most_new_tokens;
  CHECK(most_new_tokens({}, {}) == 256);
  CHECK(most_new_tokens({}, {.most_rows = 9}) == 9);
  CHECK(most_new_tokens({}, {.max_new = 7, .most_rows = 9}) == 7);
  CHECK(most_new_tokens({.max_new = 5}, {.max_new = 7, .most_rows = 9}) == 5);
}
