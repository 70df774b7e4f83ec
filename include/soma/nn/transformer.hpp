#pragma once
// MultiHeadAttention and TransformerEncoder (arXiv 1706.03762), over ragged batches and [B, T, C].

#include <soma/nn/layers.hpp>
#include <soma/nn/sequence_rows.hpp>
#include <soma/ops/sequence/settings.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::nn {

struct TransformerOptions {
  std::size_t width = 0, heads = 1, inner = 0;  // C, H, width of the feed-forward part
  std::size_t layers = 1;
  Activation activation = Activation::gelu;
  float dropout = 0, attention_dropout = 0;
  float epsilon = 1e-5f;
  bool norm_first = false;           // norm before each part, as in arXiv 2002.04745, not after it
  float standard_deviation = 0.02f;  // for initial weights
  bool attention_output_dropout = true;  // `dropout` also after the attention's output
  bool causal = false;                   // a row attends to itself and to earlier rows of its
                                         // sequence
  // Above 0: rotary positions (arXiv 2104.09864) with that base, usually 10000, turn queries and
  // keys. The width of a head must then be even.
  float rotary_base = 0;
};
void fields(FieldVisitor& visitor, TransformerOptions& options);

// Queries, keys and values of all heads come from one matrix product: weight is [3 C, C], queries
// first. With `queries_apart`, queries have a weight of their own, so that they can be computed for
// some rows only, and the other weight is [2 C, C]. Either way they are named as three parameters.
class MultiHeadAttention {
 public:
  MultiHeadAttention() = default;
  // Error operator.value: the width is no multiple of the number of heads.
  MultiHeadAttention(const Scope& scope, const TransformerOptions& options,
                     bool queries_apart = false);

  // residual + dropout(output(attention(x))): the last product fuses the addition. Rows of x form
  // sequences. With `first`, which holds the first row of each sequence, only these rows are
  // queries and have a residual. `mask`: as for attention().
  Var operator()(Tape& tape, const Var& x, const Var& residual, const Var& first = {},
                 const Var& mask = {}) const;
  void collect(Collector& collector) const;
  using ProjectionNames = std::array<const char*, 3>;
  // `called`: the names of queries, keys and values.
  void collect_projections(Collector& collector,
                           const ProjectionNames& called = projection_names) const;

  std::size_t heads = 1;
  bool causal = false;
  float rotary_base = 0;
  ProductSite site;  // for the projections
  Dropout probabilities, output_dropout;
  Linear output;
  Var weight, bias;  // [3 C, C], [3 C]; with queries apart [2 C, C], [2 C]
  Linear query;      // if queries are apart

 private:
  // Turns queries and keys by their positions. A first row has position 0 and stays the same.
  void turn(Tape& tape, Var& all, Var& queries) const;
  static constexpr ProjectionNames projection_names = {"query", "key", "value"};
  // The names of the projections that share a matrix.
  std::span<const char* const> names_together() const;
};

class TransformerEncoderLayer {
 public:
  TransformerEncoderLayer() = default;
  TransformerEncoderLayer(const Scope& scope, const TransformerOptions& options,
                          bool queries_apart = false);

  // Maps the rows of x to the same number of rows, or with `first_rows` to the first rows of
  // sequences, [sequences, C], with the same bits. For other rows only keys and values are then
  // computed, and queries unless they are apart.
  Var operator()(Tape& tape, const Var& x, bool first_rows = false, const Var& mask = {}) const;
  // The same, but only x and the sum are kept: backward computes the rest again.
  Var recomputed(Tape& tape, const Var& x, const Var& mask = {}) const;
  void collect(Collector& collector) const;

  MultiHeadAttention attention;
  LayerNorm attention_norm;
  Linear inner, outer;
  Dropout outer_dropout;
  LayerNorm outer_norm;
  Activation activation = Activation::gelu;
  bool norm_first = false;

 private:
  // The layer up to the last addition.
  Var sum(Tape& tape, const Var& x, bool first_rows, const Var& mask) const;
  Var last_norm(Tape& tape, const Var& sum) const;
  Var feed_forward(Tape& tape, const Var& x, const Var& residual) const;
};

struct EncoderSetting {
  // Keeps only the input of each layer and its last sum, and computes the rest again in backward,
  // except for the last layer, whose backward follows at once. The same bits.
  bool recompute = false;
  // The result is the first row of each sequence, [sequences, C]. The last layer computes only what
  // these rows need (TransformerEncoderLayer).
  bool first_rows = false;
  // A constant that marks which rows of a sequence attend to which, as for attention(). It applies
  // to all layers, and cannot be combined with first_rows.
  Var mask{};
};

// The last layer has its own query projection, because a classifier needs queries for the first
// rows only. Rows of x form sequences, [rows, C]; or x is a batch [B, T, C]. The result has the
// shape of x, or is [sequences, C] for first rows.
class TransformerEncoder {
 public:
  TransformerEncoder() = default;
  TransformerEncoder(const Scope& scope, const TransformerOptions& options);
  Var operator()(Tape& tape, Var x, const EncoderSetting& setting = {}) const;
  // One layer of the encoder, for rows that form sequences.
  Var run_layer(std::size_t i, Tape& tape, const Var& x, const EncoderSetting& setting = {}) const;
  void collect(Collector& collector) const;

  std::vector<TransformerEncoderLayer> layers;
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/transformer.ipp>
#endif
