#pragma once
// TextEncoder: a BERT with its tokenizer that maps a text to a vector: for search, clustering,
// features of other models. It reads and writes folders as sentence-transformers has them.
//
//   const auto encoder = soma::models::TextEncoder::from_pretrained(context, "all-MiniLM-L6-v2");
//   const soma::Tensor vectors = encoder.embed({"a text", "another"});  // [2, 384]

#include <soma/models/answering.hpp>
#include <soma/models/bert.hpp>
#include <soma/text/tokenizer.hpp>

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::models {

namespace detail {

// True if a folder has files of an encoder beside those of a model.
bool is_encoder_folder(const std::string& folder);

}  // namespace detail

struct TextEncoderOptions {
  // Not set: as the folder says; for a folder that does not say, the mean and not normalised, as
  // sentence-transformers has it.
  std::optional<Pooling> pooling{};
  std::optional<bool> normalised{};  // true: vectors have length 1
  std::size_t max_length = 0;  // tokens of a text; longer texts are cut. 0: the folder's limit
  nn::InitialStore* later = nullptr;  // nn::Scope::later: the caller makes the parameters
};

// True if the folder has modules.json: it is an encoder's, not only a model's.
bool is_text_encoder(std::string_view folder);

class TextEncoder {
 public:
  // The encoder's BERT is that of a classifier whose head is not used. Error models.config_value: a
  // max_length beyond the positions.
  TextEncoder(Context& context, text::Tokenizer tokenizer, BertClassifier model,
              const TextEncoderOptions& options = {});

  // Reads a folder with config.json, model.safetensors and the tokenizer's files, and if they are
  // there modules.json, the pooling's config.json, sentence_bert_config.json and
  // config_sentence_transformers.json. Errors models.encoder_module (a module, a way of pooling, a
  // prompt or a setting that soma lacks: it is named), and those of
  // TextClassifier::from_pretrained.
  static TextEncoder from_pretrained(Context& context, std::string_view folder,
                                     const TextEncoderOptions& options = {});

  // Writes a folder that sentence-transformers and transformers load: also the files named above.
  // An earlier encoder of that name is replaced once the new one is complete; a folder with any
  // other file is refused. Error file.write.
  void save(std::string_view folder) const;

  // fp32 [texts, width()]. Texts are computed in batches of similar lengths, so that memory does
  // not grow with their number; a vector does not depend on the other texts. A text without tokens
  // of its own gets the vector of the special tokens. Errors models.not_finite (the model gives NaN
  // or infinity), and those of Tokenizer::encode.
  Tensor embed(std::span<const std::string_view> texts, DType activations = DType::fp32) const;
  // Error models.predictor: options.most_tokens is below the tokens of a text.
  Tensor embed(std::span<const std::string_view> texts, const AnswerOptions& options) const;
  Tensor embed(std::initializer_list<std::string_view> texts) const;

  // The vector of each sequence on a tape, [sequences, width()]: for a training of one's own.
  Var operator()(Tape& tape, const Var& ids, const Var& token_types = {}) const;
  void collect(nn::Collector& collector) const;

  std::size_t width() const { return model_.bert.config.width; }
  Pooling pooling() const { return model_.bert.config.pooling; }
  bool normalised() const { return normalised_; }
  std::size_t max_length() const { return max_length_; }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }
  const BertConfig& config() const { return model_.bert.config; }

 private:
  Context& context_;
  text::Tokenizer tokenizer_;
  BertClassifier model_;
  bool normalised_ = false;
  std::size_t max_length_ = 0;
};

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/text_encoder.ipp>
#endif
