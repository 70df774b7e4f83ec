#pragma once
// BERT (arXiv 1810.04805) over ragged batches: embeddings, post-norm encoder, pooler, and a
// classifier on top. DistilBERT (arXiv 1910.01108) is the same except for the differences at
// BertKind. Parameters have the names of the usual checkpoints.

#include <soma/base/record.hpp>
#include <soma/nn/pieces.hpp>
#include <soma/nn/transformer.hpp>
#include <soma/ops/checks.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

// distilbert has no token types and no dropout after attention. Its layer between the encoder and
// the classifier has relu instead of tanh, and belongs to the classifier.
enum class BertKind : std::uint8_t { bert, distilbert };

// How the hidden states of a text become one vector: that of its first token, their mean, or the
// largest element of each column.
enum class Pooling : std::uint8_t { first, mean, max };
inline constexpr std::string_view pooling_names[] = {"first", "mean", "max"};

struct BertConfig {
  std::size_t vocabulary = 30522, width = 768, layers = 12, heads = 12, inner = 3072;
  std::size_t positions = 512, types = 2;
  float dropout = 0.1f, attention_dropout = 0.1f;
  float epsilon = 1e-12f, standard_deviation = 0.02f;
  Activation activation = Activation::gelu;
  std::optional<float> classifier_dropout{};  // none: as dropout
  // Backward keeps only the input and the last sum of each layer and computes the rest again: less
  // memory, about a fifth more products, the same bits.
  bool recompute = false;
  BertKind kind = BertKind::bert;
  // The layer behind the encoder reads these vectors. With `first` the last layer computes first
  // tokens only.
  Pooling pooling = Pooling::first;

  static BertConfig base();
  static BertConfig minilm();
  static BertConfig small_model();
#ifndef small  // <windows.h> defines it: there, only the longer name exists
  static BertConfig small() { return small_model(); }
#endif
  static BertConfig tiny();
};

// The floating-point operations of a classifier's training step on these sequences, forward and
// backward (twice forward), without recomputation: products of the layers, attention, pooler. With
// Pooling::first the last layer computes only keys and values for all tokens, and everything else
// for first tokens.
double training_flops(const BertConfig& config, const Sequences& sequences);

class BertModel {
 public:
  BertModel() = default;
  // Error operator.value: the width is no multiple of the number of heads. A DistilBERT has no
  // types, whatever `settings.types` is.
  BertModel(const nn::Scope& scope, const BertConfig& settings);

  // Hidden states [rows, width] of token ids whose rows form sequences. Token types [rows] name the
  // text of a pair that each token belongs to; without them all types are 0. Errors
  // operator.inputs, tensor.rank, operator.sequences, tensor.shape (not a type for each id),
  // models.sequence_length, operator.value (an id outside the vocabulary).
  Var operator()(Tape& tape, const Var& ids, const Var& token_types = {}) const;

  // The hidden state of each sequence's first token, [sequences, width]: the same bits as
  // sequence_first() of all hidden states, but the last layer computes nothing for other tokens.
  // Errors as above, and ragged.empty_sequence.
  Var first(Tape& tape, const Var& ids, const Var& token_types = {}) const;
  // The vector of each sequence, [sequences, width], by config.pooling. Errors as above.
  Var pooled(Tape& tape, const Var& ids, const Var& token_types = {}) const;
  // The same in steps: embed(), run_layer() for each layer, then pool_rows().
  Var embed(Tape& tape, const Var& ids, const Var& token_types = {}) const;
  Var run_layer(std::size_t i, Tape& tape, const Var& x) const;

  // The vector of each sequence from the rows of the last layer.
  Var pool_rows(Tape& tape, const Var& x) const;

  // tanh, or relu for a DistilBERT, of a linear function of each sequence's vector: [sequences,
  // width].
  Var pool(Tape& tape, const Var& vectors) const;

  // The classifier names a DistilBERT's pooler.
  void collect(nn::Collector& collector) const;
  void collect_embeddings(nn::Collector& collector) const;
  void collect_layer(nn::Collector& collector, std::size_t i) const;
  void collect_pooler(nn::Collector& collector) const;
  // Records the settings that change the results but no shape.
  void describe(Record& identity) const;

  BertConfig config;
  nn::Embedding words, positions, types;
  nn::LayerNorm norm;
  nn::Dropout dropout;
  nn::TransformerEncoder encoder;
  nn::Linear pooler;

 private:
  // The names of a layer's parameters in checkpoints.
  struct Layer {
    const nn::TransformerEncoderLayer& layer;
    BertKind kind;
    void collect(nn::Collector& collector) const;
  };
  struct Projections {
    const nn::MultiHeadAttention& attention;
    void collect(nn::Collector& collector) const;
  };

  nn::EncoderSetting pooled_setting() const;
};

class BertClassifier {
 public:
  BertClassifier() = default;
  BertClassifier(const nn::Scope& scope, const BertConfig& config, std::size_t labels);

  // Logits [sequences, labels], fp32. Errors as BertModel.
  Var operator()(Tape& tape, const Var& ids, const Var& token_types = {}) const;
  // The pieces: embeddings, layers, head.
  nn::Pieces pieces() const;

  void collect(nn::Collector& collector) const;
  // The prefix of the encoder's parameters, and the model_type in config.json.
  static std::string_view name_of(BertKind kind) {
    return kind == BertKind::bert ? "bert" : "distilbert";
  }
  void describe(Record& identity) const;

  BertModel bert;
  nn::Dropout dropout;
  nn::Linear classifier;

 private:
  // The parameters of one piece, with their names in the whole model.
  struct Part {
    const BertClassifier& model;
    std::size_t piece;
    struct OfBert {
      const BertModel& bert;
      std::size_t piece, last;
      void collect(nn::Collector& collector) const;
    };
    void collect(nn::Collector& collector) const;
  };

  static Var run_of(const void* model, std::size_t i, Tape& tape, const Var& x,
                    const data::Batch& batch);
  std::size_t piece_count() const;
  Var run_piece(std::size_t i, Tape& tape, const Var& x, const Var& token_types) const;
};

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/bert.ipp>
#endif
