#pragma once
// TextGenerator: writes texts that continue prompts, with a decoder of a LanguageModel. Keys and
// values of earlier rows are kept (nn/key_value_cache.hpp), so a token costs one row of each
// product. Prompts of any lengths are written together, each at its own position; where one ends,
// the next prompt joins.
//
//   models::TextGenerator generator(context, model, {.max_new = 64});
//   const models::GeneratedText text = generator.generate("The capital of France is");
//
// A text depends on its prompt, its number, the options and the weights alone, bit by bit: not on
// the other prompts of a batch, on the parts in which a prompt is read, or on threads.

#include <soma/models/decoder/generation_config.hpp>
#include <soma/models/decoder/sampling.hpp>
#include <soma/models/decoder/shown_text.hpp>
#include <soma/models/language_model.hpp>
#include <soma/ops/product/packed_weights.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/state/tensor_source.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE {

class PrecisionState;  // nn/precision_state.hpp

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::models {

// Why a text ended.
enum class TextEnd : std::uint8_t {
  end_token,      // a token that ends texts
  stop_text,      // one of the stop texts
  most_tokens,    // max_new or most_rows
  last_position,  // the model has no further position
  stopped,        // the stop flag
};
inline constexpr std::string_view text_end_names[] = {"end token", "stop text", "most tokens",
                                                      "last position", "stopped"};

// The settings of the folder's generation_config.json; without it greedy, to the end of the text.
// Errors of generation_config_from_json; of a folder: file.read.
GenerationConfig generation_config_of(const LanguageModel& model);
GenerationConfig generation_config_of(std::string_view folder);

struct GeneratorOptions {
  // Not set: generation_config_of(model). Its end_ids are added to LanguageModel::end_ids().
  std::optional<GenerationConfig> config{};
  // The most tokens of a text; 0: config's max_new, or 256 if it does not say.
  std::size_t max_new = 0;
  std::uint64_t seed = 0;          // draws depend on it
  std::uint64_t first_prompt = 0;  // the number of the first prompt, which draws depend on
  std::size_t at_once = 16;        // the most prompts that are written together
  // The most rows of a step: longer prompts are read in parts. Each prompt at work has a row.
  std::size_t part = 512;
  // The most bytes of kept keys and values, as predicted before a prompt is read; 0: any.
  std::size_t most_bytes = 0;
  DType activations = DType::fp32;      // TapeOptions::activations
  PrecisionState* precision = nullptr;  // the formats of products; its activations count
  // Weights are packed at their first use (PackedWeights): tokens come sooner, and weights that do
  // not lie in a mapped file are in memory twice.
  bool packed = false;
  bool log_probabilities = false;  // GeneratedText::log_probabilities
  const StopFlag* stop = nullptr;  // ends all texts where they are
};

// The most tokens of a text, by these rules.
std::size_t most_new_tokens(const GeneratorOptions& options, const GenerationConfig& config);

struct GeneratedText {
  std::string text;               // that follows the prompt, without the stop text
  std::vector<std::int32_t> ids;  // its tokens, with the token that ended it
  TextEnd end = TextEnd::stopped;
  std::size_t prompt_tokens = 0;
  // The natural logarithm of each token's probability in the model, before any setting.
  std::vector<float> log_probabilities{};
};

// A token of a text, as it comes.
struct GeneratedPiece {
  std::size_t prompt;     // index in the call
  std::string_view text;  // the characters that are complete; often empty
  std::int32_t id;        // -1: the text ended without a further token
  bool last;              // GeneratedText is complete
};
using GeneratedCallback = std::function<void(const GeneratedPiece&)>;

// Counts and times of a generator's calls so far.
struct GeneratorStatistics {
  std::uint64_t prompt_tokens = 0, new_tokens = 0;
  std::uint64_t steps = 0, step_tokens = 0;  // steps that read no prompt, and their tokens
  double prompt_seconds = 0, step_seconds = 0;
};

// Bytes that generating needs, estimated before anything is read.
struct GeneratorBytes {
  std::size_t weights = 0;    // as they are in memory, and their panels if they are packed
  std::size_t cache = 0;      // keys and values, and a layer's copy
  std::size_t workspace = 0;  // hidden states and scores of a step
  std::size_t total() const { return weights + cache + workspace; }
};

class TextGenerator {
 public:
  // The model must outlive the generator. Errors models.generator: options out of range, a model
  // that is cut into stages, a precision whose scales depend on the batch or are not known;
  // operator.value: sampling options out of range; those of generation_config_of.
  TextGenerator(Context& context, const LanguageModel& model, const GeneratorOptions& options = {});
  TextGenerator(const TextGenerator&) = delete;
  TextGenerator& operator=(const TextGenerator&) = delete;
  ~TextGenerator();

  // One text for each prompt, in their order; `each` gets every token as it comes, those of several
  // prompts in turn. A prompt has the tokens that the tokenizer's files put before a text, once; an
  // empty one begins with bos. Errors models.generator: an empty prompt for a model without bos,
  // more bytes than allowed, a precision whose scales depend on the batch; models.sequence_length:
  // a prompt beyond the model's positions; models.not_finite: a score is NaN or infinite.
  std::vector<GeneratedText> generate(std::span<const std::string> prompts,
                                      const GeneratedCallback& each = {}) const;
  GeneratedText generate(std::string_view prompt, const GeneratedCallback& each = {}) const;

  // The tokens of a prompt. Error models.generator.
  std::vector<std::int32_t> prompt_ids(std::string_view prompt) const;

  const GenerationConfig& config() const { return config_; }
  // Ids that end a text, ascending.
  std::span<const std::int32_t> end_ids() const { return end_ids_; }
  std::size_t max_new() const { return max_new_; }
  GeneratorStatistics statistics() const { return counts_; }
  // The bytes of the matrices that a step reads: of all layers and the head.
  std::size_t step_bytes() const;

 private:
  struct Text;  // a text that is being written
  class Run;

  void check_precision() const;
  void check_bytes(std::span<const std::vector<std::int32_t>> prompts) const;
  std::size_t most_rows() const;
  // Gives back the mapped memory of weights that have panels.
  void release_originals() const;

  Context& context_;
  const LanguageModel& model_;
  GeneratorOptions options_;
  GenerationConfig config_;
  std::size_t max_new_;
  DType activations_;
  std::vector<std::int32_t> end_ids_;
  std::vector<std::uint8_t> drawable_;  // by id: 1 if it stands for a token
  mutable PackedWeights packed_;
  mutable bool released_ = false;
  mutable GeneratorStatistics counts_{};
};

// The most rows of a prompt with its text: the model's positions, its sliding window if that is
// smaller, and at most 65,536.
std::size_t most_text_rows(const DecoderConfig& config);

// The bytes of generating texts of so many rows each, prompt and text, with weights of that type in
// memory. An estimate from above; the process itself comes on top.
GeneratorBytes generator_bytes(const DecoderConfig& config, const GeneratorOptions& options,
                               DType weights, std::span<const std::size_t> rows);

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/decoder/impl/generator.ipp>
#endif
