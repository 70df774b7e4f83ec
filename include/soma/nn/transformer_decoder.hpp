#pragma once
// TransformerDecoder (arXiv 1706.03762): layers whose rows attend to the rows before them, and to
// all rows of another sequence, the memory, which is an encoder's output for another text. Both are
// ragged, or both [B, T, C] with the same number of sequences.

#include <soma/autograd/sequence_functions.hpp>
#include <soma/nn/sequence_rows.hpp>
#include <soma/nn/transformer.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::nn {

// Attention with queries from x, and keys and values from the memory. Its parameters have the names
// of MultiHeadAttention.
class CrossAttention {
 public:
  CrossAttention() = default;
  CrossAttention(const Scope& scope, const TransformerOptions& options)
      : parts(scope, options, true) {}

  // residual + dropout(output(attention(x, memory))). Errors as cross_attention.
  Var operator()(Tape& tape, const Var& x, const Var& memory, const Var& residual) const;
  void collect(Collector& collector) const;

  MultiHeadAttention parts;
};

class TransformerDecoderLayer {
 public:
  TransformerDecoderLayer() = default;
  TransformerDecoderLayer(const Scope& scope, const TransformerOptions& options);

  Var operator()(Tape& tape, const Var& x, const Var& memory) const;
  void collect(Collector& collector) const;

  MultiHeadAttention self_attention;
  LayerNorm self_attention_norm;
  CrossAttention cross_attention;
  LayerNorm cross_attention_norm;
  Linear inner, outer;
  Dropout outer_dropout;
  LayerNorm outer_norm;
  Activation activation = Activation::gelu;
  bool norm_first = false;

 private:
  static TransformerOptions causal(TransformerOptions options);
  Var feed_forward(Tape& tape, const Var& x, const Var& residual) const;
};

// Rows attend to the rows before them whatever `options.causal` says. Rotary positions apply to
// self-attention only.
class TransformerDecoder {
 public:
  TransformerDecoder() = default;
  TransformerDecoder(const Scope& scope, const TransformerOptions& options);
  // Maps the rows of x to the same number of rows. Errors operator.sequences (memory with another
  // number of sequences), tensor.rank, tensor.shape.
  Var operator()(Tape& tape, const Var& x, const Var& memory) const;
  void collect(Collector& collector) const;

  std::vector<TransformerDecoderLayer> layers;
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/transformer_decoder.ipp>
#endif
