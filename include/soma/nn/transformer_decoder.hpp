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

namespace soma::nn {

// Attention with queries from x, and keys and values from the memory. Its parameters have the names
// of MultiHeadAttention.
class CrossAttention {
 public:
  CrossAttention() = default;
  CrossAttention(const Scope& scope, const TransformerOptions& options)
      : parts(scope, options, true) {}

  // residual + dropout(output(attention(x, memory))). Errors as cross_attention.
  Var operator()(Tape& tape, const Var& x, const Var& memory, const Var& residual) const {
    const Var all = linear_at(parts.site, tape, memory, parts.weight, parts.bias);
    const Var mixed = cross_attention(tape, parts.query(tape, x), all,
                                      {parts.heads, parts.probabilities.setting(tape)});
    return parts.output(tape, mixed, {.dropout = parts.output_dropout.setting(tape)}, residual);
  }
  void collect(Collector& collector) const { parts.collect(collector); }

  MultiHeadAttention parts;
};

class TransformerDecoderLayer {
 public:
  TransformerDecoderLayer() = default;
  TransformerDecoderLayer(const Scope& scope, const TransformerOptions& options)
      : self_attention(scope / "self_attention", causal(options)),
        self_attention_norm(scope / "self_attention_norm", options.width, options.epsilon),
        cross_attention(scope / "cross_attention", options),
        cross_attention_norm(scope / "cross_attention_norm", options.width, options.epsilon),
        inner(scope / "inner", options.width, options.inner,
              {.standard_deviation = options.standard_deviation}),
        outer(scope / "outer", options.inner, options.width,
              {.standard_deviation = options.standard_deviation}),
        outer_dropout(scope / "outer", options.dropout),
        outer_norm(scope / "outer_norm", options.width, options.epsilon),
        activation(options.activation),
        norm_first(options.norm_first) {}

  Var operator()(Tape& tape, const Var& x, const Var& memory) const {
    if (norm_first) {
      Var h = self_attention(tape, self_attention_norm(tape, x), x);
      h = cross_attention(tape, cross_attention_norm(tape, h), memory, h);
      return feed_forward(tape, outer_norm(tape, h), h);
    }
    Var h = self_attention_norm(tape, self_attention(tape, x, x));
    h = cross_attention_norm(tape, cross_attention(tape, h, memory, h));
    return outer_norm(tape, feed_forward(tape, h, h));
  }
  void collect(Collector& collector) const {
    collector.part("self_attention", self_attention);
    collector.part("self_attention_norm", self_attention_norm);
    collector.part("cross_attention", cross_attention);
    collector.part("cross_attention_norm", cross_attention_norm);
    collector.part("inner", inner);
    collector.part("outer", outer);
    collector.part("outer_norm", outer_norm);
  }

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
  static TransformerOptions causal(TransformerOptions options) {
    options.causal = true;
    return options;
  }
  Var feed_forward(Tape& tape, const Var& x, const Var& residual) const {
    const Var h = inner(tape, x, {.activation = activation});
    return outer(tape, h, {.dropout = outer_dropout.setting(tape)}, residual);
  }
};

// Rows attend to the rows before them whatever `options.causal` says. Rotary positions apply to
// self-attention only.
class TransformerDecoder {
 public:
  TransformerDecoder() = default;
  TransformerDecoder(const Scope& scope, const TransformerOptions& options) {
    for (std::size_t i = 0; i < options.layers; ++i)
      layers.emplace_back(scope / "layer" / std::to_string(i), options);
  }
  // Maps the rows of x to the same number of rows. Errors operator.sequences (memory with another
  // number of sequences), tensor.rank, tensor.shape.
  Var operator()(Tape& tape, const Var& x, const Var& memory) const {
    const SequenceRows own(tape, x), other(tape, memory);
    Var rows = own.rows();
    for (const TransformerDecoderLayer& layer : layers) rows = layer(tape, rows, other.rows());
    return own.back(tape, rows);
  }
  void collect(Collector& collector) const {
    for (std::size_t i = 0; i < layers.size(); ++i)
      collector.part("layer." + std::to_string(i), layers[i]);
  }

  std::vector<TransformerDecoderLayer> layers;
};

}  // namespace soma::nn
