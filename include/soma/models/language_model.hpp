#pragma once
// LanguageModel: a decoder with its tokenizer. It reads and writes folders of the usual files, and
// is a task that trainers train: rows are texts, or prompts with answers.

#include <soma/data/document_source.hpp>
#include <soma/models/adapter_files.hpp>
#include <soma/models/decoder/config_json.hpp>
#include <soma/models/decoder/decoder.hpp>
#include <soma/models/decoder/files.hpp>
#include <soma/nn/task.hpp>
#include <soma/runtime/stop_flag.hpp>
#include <soma/text/byte_pairs/byte_tokenizer.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn {

class Later;  // nn/later.hpp

}  // namespace SOMA_NAMESPACE::nn

namespace SOMA_NAMESPACE::models {

// The tokens of a prompt with an answer that are learnt.
enum class TrainedTokens : std::uint8_t { answers, all };
inline constexpr std::string_view trained_tokens_names[] = {"answers", "all"};

struct LanguageModelOptions {
  // The most rows of a sequence; longer documents are cut into windows. 0: usual_length().
  std::size_t length = 0;
  std::size_t overlap = 0;  // data::WindowOptions::overlap
  TrainedTokens trained = TrainedTokens::answers;
  std::uint64_t seed = 0;  // for random initial values
  float dropout = -1;      // everywhere; below 0: the configuration's
  bool recompute = false;  // DecoderConfig::recompute
  // The type of matrices in memory, for models that are not trained further: fp32 or bf16. A file's
  // numbers are rounded to nearest.
  DType weights = DType::fp32;
  // from_pretrained(): a parameter that is one whole tensor of the files, in the type of memory,
  // stays in the mapped file, read-only; the file's memory of all others is given back once they
  // are read. A file that is cut while it is mapped ends the process by SIGBUS.
  bool in_place = false;
  // For from_pretrained(): load_adapter() of that folder, or adapt(), but not both.
  std::string adapter{};
  std::optional<nn::LoraOptions> lora{};
  // nn::Scope::later: a stage of a pipeline makes only its own weights from the files.
  nn::InitialStore* later = nullptr;
};

// The most rows of a sequence: `length`, or for 0 the model's positions or its sliding window, at
// most 1,024.
std::size_t usual_length(const DecoderConfig& config, std::size_t length = 0);

struct SaveLanguageModelOptions {
  std::optional<DType> weights{};  // not set: the type of the folder that the model came from
  std::size_t shard_bytes = 0;     // SaveDecoderOptions::shard_bytes
  TensorSource* source = nullptr;  // SaveDecoderOptions::source
};

class LanguageModel final : public nn::Task {
 public:
  // A model with initial weights. `files`: the tokenizer's files, which save() writes. Errors
  // models.config_value (a length beyond learned positions or a sliding window, a table with fewer
  // rows than the tokenizer has ids, an eos_token_id beyond the table), train.options (an overlap
  // that is not below the length), and those of Decoder.
  LanguageModel(Context& context, text::ByteTokenizer tokenizer, const DecoderConfigFile& file,
                const LanguageModelOptions& options, NamedFiles files = {});

  // Reads a folder with config.json, weights and the tokenizer's files. Errors of
  // load_decoder_config, load_decoder and ByteTokenizer::from_files; models.weights_file: an
  // adapter's folder; models.config_value.
  static LanguageModel from_pretrained(Context& context, std::string_view folder,
                                       const LanguageModelOptions& options = {});

  // Writes a folder that the usual libraries load. The tokenizer's files are those of the folder
  // that the model came from, byte for byte. Errors of save_decoder; operator.value: an adapted
  // model, whose adapters such a folder does not hold.
  void save(std::string_view folder, const SaveLanguageModelOptions& options = {}) const;

  // Trains adapters (nn/lora.hpp) in place of the model's own parameters, which are frozen. Before
  // a trainer is made. Errors of nn::adapt.
  void adapt(const nn::LoraOptions& options);
  // The same with the adapters of a folder. Errors of models::load_adapter.
  void load_adapter(const std::string& folder);
  bool adapted() const;
  // Writes the adapters' folder. `source`: SaveDecoderOptions::source. Errors of
  // models::save_adapter.
  void save_adapter(std::string_view folder, TensorSource* source = nullptr) const;
  // Adds the adapters to the weights, rounded to `type` (not set: that of the folder that the model
  // came from), and removes them; the model's own parameters are trained again. Returns the
  // difference to the exact sum, and has the errors of nn::merge.
  double merge(std::optional<DType> type = {});

  const text::ByteTokenizer& tokenizer() const { return tokenizer_; }
  const Decoder& model() const { return model_; }
  const DecoderConfig& config() const { return model_.config; }
  std::size_t length() const { return windows_.length; }
  DType file_type() const { return file_type_; }  // as the files store weights
  // The id behind a text; -1: the files name none, and nothing is put there.
  std::int32_t end_id() const { return end_id_; }
  // Every id that ends a text: those of config.json, and the tokenizer's.
  std::vector<std::int32_t> end_ids() const;
  // The files beside config.json and the weights, as they are saved: the tokenizer's,
  // generation_config.json.
  const NamedFiles& files() const { return files_; }

  // Batches of rows: texts, rows with a member `text`, or rows with members `prompt` and `answer`
  // (with all three members: prompts and answers where `answer` is not empty). Each row is a
  // document of its own, with the tokens that the tokenizer's files put before a text, once, and
  // the end's id behind it. Of a prompt with an answer, which are tokenized together, the answer's
  // tokens are learnt: the first token that has a byte of the answer, and all after it. Texts are
  // tokenized on all threads. Errors data.labels (a prompt without an answer), runtime.stopped,
  // and those of DocumentSource.
  template <class Rows>
  std::unique_ptr<data::DocumentSource> batches(const Rows& rows,
                                                const data::BatchOptions& options = {},
                                                const StopFlag* stop = nullptr) const {
    std::vector<Written> written;  // refers to the rows
    for (const auto& row : rows) written.push_back(written_of(row));
    return source_of(written, options, stop);
  }

  // The tokens of a text as batches() has them.
  std::vector<std::int32_t> document(std::string_view text) const;
  // The tokens of a text that is to go on: with the tokens before it, and nothing behind it.
  std::vector<std::int32_t> prompt(std::string_view text) const;

  const Parameters& parameters() const override { return parameters_; }
  double learning_rate() const override { return 5e-5; }
  // The loss of the rows that have a target. An evaluation also gives the scores of
  // metrics::NextToken; it computes the logits of a few rows at a time. Errors data.field (a batch
  // without targets), operator.value (a target beyond the vocabulary), and those of Decoder.
  SOMA_INLINE Forward forward(Tape& tape, const data::Batch& batch) override;
  SOMA_INLINE nn::Pieces pieces() const override;
  SOMA_INLINE Forward finish(Tape& tape, const Var& hidden, const data::Batch& batch) override;
  // int64 [sequences, 2]: the targets of each sequence, and the bytes of their text.
  SOMA_INLINE Tensor labels_of(const data::Batch& batch) const override;
  SOMA_INLINE Owned<metrics::Metrics> metrics() const override;
  bool takes_parts() const override { return true; }
  SOMA_INLINE double loss_count(const data::Batch& batch) const override;
  SOMA_INLINE double useful_flops(const data::Batch& batch) const override;
  bool recomputes() const override { return model_.config.recompute; }
  SOMA_INLINE bool set_recompute(bool wanted) override;
  SOMA_INLINE void describe(Record& identity) const override;

 private:
  // A row as its owner holds it: a text, or a prompt and an answer.
  struct Written {
    std::string_view text{}, answer{};
    bool has_answer = false;
  };
  template <class Row>
  static Written written_of(const Row& row) {
    if constexpr (std::convertible_to<const Row&, std::string_view>) {
      return {.text = row};
    } else if constexpr (requires { row.text, row.prompt, row.answer; }) {
      if (row.answer.empty()) return {.text = row.text};
      return {row.prompt, row.answer, true};
    } else if constexpr (requires { row.text; }) {
      return {.text = row.text};
    } else {
      return {row.prompt, row.answer, true};
    }
  }
  struct Document {
    std::vector<std::int32_t> ids{};
    std::size_t first_target = 1;
    bool doubled_start = false;  // the text spells out the tokens that begin it
    bool without_answer = false;
    std::size_t replaced = 0;  // invalid UTF-8 sequences
  };
  LanguageModel(Context& context, std::string_view folder, text::ByteTokenizer tokenizer,
                const DecoderConfigFile& file, const std::vector<SafetensorsFile>& weights,
                const LanguageModelOptions& options, NamedFiles files, const nn::Later* from_files);
  Document document_of(const Written& row) const;
  std::unique_ptr<data::DocumentSource> source_of(std::span<const Written> rows,
                                                  const data::BatchOptions& options,
                                                  const StopFlag* stop) const;
  // Targets of the batch's rows, without those of rows that only pad.
  Tensor targets_of(const data::Batch& batch) const;
  Var loss(Tape& tape, const Var& hidden, const Tensor& targets, const data::Batch& batch) const;
  Forward evaluate(Tape& tape, const Var& hidden, const Tensor& targets,
                   const data::Batch& batch) const;

  static DecoderConfig checked(DecoderConfig config, const LanguageModelOptions& options,
                               std::size_t ids);

  Context& context_;
  text::ByteTokenizer tokenizer_;
  DecoderConfigFile file_;
  NamedFiles files_;
  data::WindowOptions windows_;
  TrainedTokens trained_;
  std::int32_t end_id_ = -1;
  DType file_type_ = DType::fp32;
  std::vector<std::uint32_t> token_bytes_;  // the text that each id stands for
  std::uint64_t seed_ = 0;
  nn::InitialStore* later_ = nullptr;
  std::string source_{};  // the folder that the model came from
  Decoder model_;
  Parameters parameters_;
  std::optional<AdapterConfig> adapter_{};
};

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/language_model.ipp>
#endif
