#pragma once
// The functions of generator.hpp.

#include <soma/models/decoder/generator.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/base/contains.hpp>
#include <soma/base/error.hpp>
#include <soma/base/error_ids.hpp>
#include <soma/base/sizes.hpp>
#include <soma/models/model_files.hpp>
#include <soma/nn/key_value_cache.hpp>
#include <soma/nn/precision_state.hpp>
#include <soma/runtime/parallel.hpp>
#include <soma/system/clock.hpp>
#include <soma/system/mapped_pages.hpp>
#include <soma/text/read_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

SOMA_INLINE GenerationConfig generation_config_of(const LanguageModel& model) {
  constexpr std::string_view name = "generation_config.json";
  for (const auto& [file, content] : model.files())
    if (file == name) return generation_config_from_json(content, name);
  return {};
}

SOMA_INLINE GenerationConfig generation_config_of(std::string_view folder) {
  const std::string path = std::string(folder) + "/generation_config.json";
  if (!detail::is_file(path)) return {};
  return generation_config_from_json(text::read_file("generation_config_of", path), path);
}

SOMA_INLINE std::size_t most_new_tokens(const GeneratorOptions& options,
                                        const GenerationConfig& config) {
  return options.max_new != 0    ? options.max_new
         : config.max_new != 0   ? config.max_new
         : config.most_rows != 0 ? config.most_rows
                                 : 256;
}

SOMA_INLINE std::size_t most_text_rows(const DecoderConfig& config) {
  constexpr std::size_t most = 65536;  // an attention takes no more
  const std::size_t limit = config.most_rows();
  return (std::min)({most, config.positions, limit == 0 ? most : limit});
}

SOMA_INLINE GeneratorBytes generator_bytes(const DecoderConfig& config,
                                           const GeneratorOptions& options, DType weights,
                                           std::span<const std::size_t> rows) {
  const nn::DecoderOptions& layer = config.layer;
  const std::size_t heads = layer.heads * layer.head_size(),
                    keys = layer.groups() * layer.head_size(),
                    inner = layer.inner * (layer.gated ? 2 : 1);
  const std::size_t in_layer = layer.width * (2 * heads + 2 * keys + inner + layer.inner);
  const std::size_t tables = layer.width * (config.vocabulary * (config.tied ? 1 : 2) +
                                            (config.learned_positions ? config.positions : 0));
  GeneratorBytes bytes;
  bytes.weights = (config.layers * in_layer + tables) * size_of(weights);
  if (options.packed)
    bytes.weights += (config.layers * in_layer + layer.width * config.vocabulary) *
                     (weights == DType::bf16 ? size_of(weights) : sizeof(float));
  std::vector<std::size_t> longest(rows.begin(), rows.end());
  std::sort(longest.begin(), longest.end(), std::greater<>());
  if (longest.size() > options.at_once) longest.resize(options.at_once);
  const DType type =
      options.precision != nullptr ? options.precision->activations() : options.activations;
  bytes.cache = nn::KeyValueCache::most_bytes(config.layers, keys, type, longest);
  constexpr std::size_t score_bytes = 48;  // token_chances(), for each of the vocabulary
  std::size_t together = 0;                // rows of a step
  for (const std::size_t each : longest) together += each;
  together = (std::min)(together, (std::max)(options.part, longest.size()));
  // A layer's input, norm, projections twice (turned), result, and inner rows, at once.
  bytes.workspace =
      together * (4 * layer.width + 3 * heads + 4 * keys + inner + layer.inner) * sizeof(float) +
      longest.size() * config.vocabulary * (sizeof(float) + score_bytes);
  return bytes;
}

SOMA_INLINE TextGenerator::TextGenerator(Context& context, const LanguageModel& model,
                                         const GeneratorOptions& options)
    : context_(context),
      model_(model),
      options_(options),
      config_(options.config ? *options.config : generation_config_of(model)),
      max_new_(most_new_tokens(options, config_)),
      activations_(options.precision != nullptr ? options.precision->activations()
                                                : options.activations),
      end_ids_(model.end_ids()),
      packed_(context) {
  constexpr std::string_view operation = "TextGenerator";
  const auto at_least_1 = [&](const char* name, std::size_t value) {
    if (value == 0) fail(error_id::generator, operation, name, "0", "at least 1");
  };
  at_least_1("at_once", options.at_once);
  at_least_1("part", options.part);
  check_ranges(operation, config_.sampling);
  for (const std::string& text : config_.stop_texts)
    if (text.empty()) fail(error_id::generator, operation, "stop_texts", "\"\"", "a text");
  for (const Parameter& parameter : model.parameters())
    if (!parameter.var.value().defined())
      fail(error_id::generator, operation, soma::quoted(parameter.name), "not in this process",
           "a whole model: texts are not generated by the stages of a pipeline");
  end_ids_.insert(end_ids_.end(), config_.end_ids.begin(), config_.end_ids.end());
  std::sort(end_ids_.begin(), end_ids_.end());
  end_ids_.erase(std::unique(end_ids_.begin(), end_ids_.end()), end_ids_.end());
  const text::ByteTokenizer& tokenizer = model.tokenizer();
  drawable_.resize(model.config().vocabulary);
  for (std::size_t i = 0; i < tokenizer.id_count(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    drawable_[i] = tokenizer.is_special(id) || !tokenizer.bytes_of(id).empty() ? 1 : 0;
  }
  if (options.precision != nullptr) check_precision();
}

SOMA_INLINE TextGenerator::~TextGenerator() = default;

SOMA_INLINE void TextGenerator::check_precision() const {
  const Scaling& scaling = options_.precision->precision().gemm_activations.scaling;
  const bool blocks = scaling.policy == ScalePolicy::current &&
                      (scaling.granularity == Granularity::block_128x128 ||
                       scaling.granularity == Granularity::block_16x16 ||
                       scaling.granularity == Granularity::block_32x32);
  if (scaling.reads_whole_tensor() || blocks)
    fail(error_id::generator, "TextGenerator", "precision",
         soma::quoted(options_.precision->precision().name) +
             ", whose scale of activations is that of a whole batch",
         "a scale for each row or for parts of it, none, or scales of a checkpoint");
  if (!options_.precision->scales_known())
    fail(error_id::generator, "TextGenerator", "precision",
         soma::quoted(options_.precision->precision().name) + ", whose scales are not known",
         "the scales of a checkpoint (PrecisionState::load_state)");
}

SOMA_INLINE std::size_t TextGenerator::most_rows() const { return most_text_rows(model_.config()); }

SOMA_INLINE std::vector<std::int32_t> TextGenerator::prompt_ids(std::string_view prompt) const {
  std::vector<std::int32_t> ids = model_.prompt(prompt);
  const std::int32_t start = model_.tokenizer().start_id();
  if (ids.empty() && start >= 0) ids.push_back(start);
  if (ids.empty())
    fail(error_id::generator, "TextGenerator", "prompt", "without a token",
         "a text: the tokenizer's files name no bos_token to begin with");
  return ids;
}

SOMA_INLINE std::size_t TextGenerator::step_bytes() const {
  std::size_t bytes = 0;
  std::vector<std::uint64_t> seen;
  const auto add = [&](const Tensor& value) {
    if (value.rank() != 2 || contains(seen, value.storage().id())) return;
    seen.push_back(value.storage().id());
    bytes += value.bytes();
  };
  const Decoder& decoder = model_.model();
  for (const nn::DecoderLayer& layer : decoder.layers)
    for (const Var* weight : {&layer.attention.weight, &layer.attention.output.weight,
                              &layer.inner.weight, &layer.outer.weight})
      add(weight->value());
  add(decoder.head_weight().value());
  return bytes;
}

SOMA_INLINE void TextGenerator::release_originals() const {
  if (!options_.packed || released_) return;
  released_ = true;
  for (const Parameter& parameter : model_.parameters()) {
    const Tensor& value = parameter.var.value();
    // Values that cannot be written lie in the file, which is read again where it is touched.
    if (!value.storage().writable() && packed_.holds(value))
      system::release_pages(static_cast<const std::byte*>(value.raw()), value.bytes());
  }
}

SOMA_INLINE void TextGenerator::check_bytes(
    std::span<const std::vector<std::int32_t>> prompts) const {
  std::vector<std::size_t> rows;
  const std::size_t most = most_rows();
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].size() > most)
      fail(error_id::sequence_length, "TextGenerator", "prompt " + std::to_string(i),
           std::to_string(prompts[i].size()) + " tokens",
           "at most " + std::to_string(most) + ", the model's positions");
    rows.push_back((std::min)(most, prompts[i].size() + max_new_));
  }
  if (options_.most_bytes == 0) return;
  const std::size_t cache = generator_bytes(model_.config(), options_, DType::fp32, rows).cache;
  if (cache > options_.most_bytes)
    fail(error_id::generator, "TextGenerator", "most_bytes",
         std::to_string(options_.most_bytes) + ", and keys and values of " +
             std::to_string((std::min)(prompts.size(), options_.at_once)) + " texts may take " +
             std::to_string(cache),
         "more bytes, fewer prompts at once (at_once), or fewer tokens (max_new)");
}

// A text that is being written.
struct TextGenerator::Text {
  Text(const TextGenerator& generator, std::size_t prompt_index,
       const std::vector<std::int32_t>& prompt)
      : index(prompt_index),
        ids(prompt),
        shown(generator.model_.tokenizer(), generator.config_.stop_texts, prompt) {}

  std::size_t waiting() const { return ids.size() - computed; }

  std::size_t index;              // in the call
  std::vector<std::int32_t> ids;  // the prompt's and the text's
  std::size_t computed = 0;       // ids whose rows are kept
  std::size_t new_rows = 0;       // in the step
  ShownText shown;
};

// A call: the prompts at work, and the steps that write them.
class TextGenerator::Run {
 public:
  Run(const TextGenerator& generator, const std::vector<std::vector<std::int32_t>>& prompts,
      const GeneratedCallback& each)
      : generator_(generator),
        context_(generator.context_),
        prompts_(prompts),
        each_(each),
        cache_(
            context_, generator.model_.config().layers,
            generator.model_.config().layer.groups() * generator.model_.config().layer.head_size(),
            generator.activations_),
        results_(prompts.size()) {
    for (std::size_t i = 0; i < prompts.size(); ++i) results_[i].prompt_tokens = prompts[i].size();
  }

  std::vector<GeneratedText> run() {
    const StopFlag* const stop = generator_.options_.stop;
    for (;;) {
      while (next_ < prompts_.size() && texts_.size() < generator_.options_.at_once) join();
      if (texts_.empty()) return std::move(results_);
      if (stop != nullptr && stop->requested()) break;
      step();
    }
    while (!texts_.empty()) finish(texts_.size() - 1, TextEnd::stopped);
    return std::move(results_);
  }

 private:
  void join() {
    texts_.push_back(std::make_unique<Text>(generator_, next_, prompts_[next_]));
    cache_.add();
    ++next_;
  }

  // Each text has a row; what is left goes to prompts in their order. Returns all rows.
  std::size_t share_rows() {
    std::size_t left = generator_.options_.part;
    left = left > texts_.size() ? left - texts_.size() : 0;
    std::size_t all = 0;
    for (const auto& text : texts_) {
      const std::size_t more = (std::min)(left, text->waiting() - 1);
      left -= more;
      all += text->new_rows = 1 + more;
    }
    return all;
  }

  void step() {
    const std::int64_t start = monotonic_nanoseconds();
    const std::size_t rows = share_rows();
    const Tensor ids = Tensor::empty(context_, Shape{rows}, DType::int32);
    std::vector<std::size_t> counts;
    auto* to = ids.mutable_data<std::int32_t>();
    for (const auto& text : texts_) {
      counts.push_back(text->new_rows);
      to = std::copy_n(text->ids.begin() + static_cast<std::ptrdiff_t>(text->computed),
                       text->new_rows, to);
    }
    std::vector<std::size_t> ready;  // texts whose next token is to be chosen
    bool reads_prompts = false;
    std::size_t read = 0;  // tokens of prompts
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      Text& text = *texts_[i];
      const std::size_t prompt = prompts_[text.index].size();
      if (text.computed < prompt) {
        reads_prompts = true;
        read += (std::min)(prompt - text.computed, text.new_rows);
      }
      if (text.new_rows == text.waiting()) ready.push_back(i);
    }
    const Tensor scores = compute(ids, counts, ready);
    for (const auto& text : texts_) text->computed += text->new_rows;
    choose(scores, ready);
    generator_.release_originals();
    const double seconds = static_cast<double>(monotonic_nanoseconds() - start) * 1e-9;
    GeneratorStatistics& counted = generator_.counts_;
    counted.prompt_tokens += read;
    counted.new_tokens += ready.size();
    (reads_prompts ? counted.prompt_seconds : counted.step_seconds) += seconds;
    if (!reads_prompts) ++counted.steps, counted.step_tokens += ready.size();
  }

  // The scores [ready, V] of the next tokens.
  Tensor compute(const Tensor& ids, std::span<const std::size_t> counts,
                 std::span<const std::size_t> ready) {
    const Decoder& decoder = generator_.model_.model();
    Tape tape(context_, {.record = false,
                         .training = false,
                         .activations = generator_.activations_,
                         .precision = generator_.options_.precision,
                         .packed = generator_.options_.packed ? &generator_.packed_ : nullptr});
    cache_.begin(counts);
    const Var hidden = decoder.continued(tape, tape.constant(ids, cache_.step()), cache_);
    const Sequences step = cache_.step();
    cache_.end();
    if (ready.empty()) return {};
    const Tensor all = contiguous(context_, hidden.value());
    const Tensor last = Tensor::empty(context_, Shape{ready.size(), all.size(1)}, all.dtype());
    const std::size_t bytes = all.bytes() / all.size(0);
    for (std::size_t i = 0; i < ready.size(); ++i)
      std::memcpy(static_cast<std::byte*>(last.mutable_raw()) + i * bytes,
                  static_cast<const std::byte*>(all.raw()) + (step.end(ready[i]) - 1) * bytes,
                  bytes);
    return contiguous(context_, decoder.logits(tape, tape.constant(last)).value());
  }

  struct Chosen {
    std::int32_t id = 0;
    float log_probability = 0;
  };

  void choose(const Tensor& scores, std::span<const std::size_t> ready) {
    const GeneratorOptions& options = generator_.options_;
    std::vector<Chosen> chosen(ready.size());
    parallel(context_, static_cast<int>(ready.size()), [&](int task) {
      const auto i = static_cast<std::size_t>(task);
      const Text& text = *texts_[ready[i]];
      const std::size_t width = scores.size(1);
      const std::span<const float> row(scores.data<float>() + i * width, width);
      const std::vector<TokenChance> chances =
          token_chances(row, generator_.config_.sampling, text.ids, generator_.drawable_,
                        "prompt " + std::to_string(text.index));
      chosen[i].id = draw_token(chances, options.seed, options.first_prompt + text.index,
                                static_cast<std::uint32_t>(text.ids.size()))
                         .id;
      if (options.log_probabilities) chosen[i].log_probability = log_probability(row, chosen[i].id);
    });
    // From behind, because texts that end leave.
    std::vector<std::pair<std::size_t, TextEnd>> ended;
    for (std::size_t i = 0; i < ready.size(); ++i) take(ready[i], chosen[i], ended);
    for (auto text = ended.rbegin(); text != ended.rend(); ++text) leave(text->first, text->second);
  }

  // Adds a token to a text.
  void take(std::size_t i, const Chosen& chosen,
            std::vector<std::pair<std::size_t, TextEnd>>& ended) {
    Text& text = *texts_[i];
    GeneratedText& result = results_[text.index];
    result.ids.push_back(chosen.id);
    if (generator_.options_.log_probabilities)
      result.log_probabilities.push_back(chosen.log_probability);
    text.ids.push_back(chosen.id);
    const bool ends =
        std::binary_search(generator_.end_ids_.begin(), generator_.end_ids_.end(), chosen.id);
    std::string piece = ends ? std::string() : text.shown.add(chosen.id);
    std::optional<TextEnd> end;
    const std::size_t most_rows = generator_.config_.most_rows;
    const bool most_new = result.ids.size() >= generator_.max_new_ ||
                          (generator_.options_.max_new == 0 && generator_.config_.max_new == 0 &&
                           most_rows != 0 && text.ids.size() >= most_rows);
    if (ends)
      end = TextEnd::end_token;
    else if (text.shown.stopped())
      end = TextEnd::stop_text;
    else if (most_new)
      end = TextEnd::most_tokens;
    else if (text.ids.size() > generator_.most_rows())
      end = TextEnd::last_position;
    if (end) {
      piece += text.shown.finish();
      ended.emplace_back(i, *end);
    }
    result.text += piece;
    if (end) result.end = *end;
    say(text.index, piece, chosen.id, end.has_value());
  }

  // A text ends without a further token.
  void finish(std::size_t i, TextEnd end) {
    Text& text = *texts_[i];
    const std::string piece = text.shown.finish();
    results_[text.index].text += piece;
    say(text.index, piece, -1, true);
    leave(i, end);
  }

  void leave(std::size_t i, TextEnd end) {
    results_[texts_[i]->index].end = end;
    cache_.remove(i);
    texts_.erase(texts_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void say(std::size_t index, std::string_view piece, std::int32_t id, bool last) const {
    if (each_) each_({index, piece, id, last});
  }

  const TextGenerator& generator_;
  Context& context_;
  const std::vector<std::vector<std::int32_t>>& prompts_;
  const GeneratedCallback& each_;
  nn::KeyValueCache cache_;
  std::vector<std::unique_ptr<Text>> texts_;  // at work, in the order of the cache's sequences
  std::size_t next_ = 0;                      // the prompt that joins next
  std::vector<GeneratedText> results_;
};

SOMA_INLINE std::vector<GeneratedText> TextGenerator::generate(
    std::span<const std::string> prompts, const GeneratedCallback& each) const {
  std::vector<std::vector<std::int32_t>> ids;
  for (const std::string& prompt : prompts) ids.push_back(prompt_ids(prompt));
  check_bytes(ids);
  if (options_.precision != nullptr) check_precision();
  return Run(*this, ids, each).run();
}

SOMA_INLINE GeneratedText TextGenerator::generate(std::string_view prompt,
                                                  const GeneratedCallback& each) const {
  const std::string own(prompt);
  return std::move(generate(std::span<const std::string>(&own, 1), each).front());
}

}  // namespace SOMA_NAMESPACE::models
