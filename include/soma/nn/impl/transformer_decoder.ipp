#pragma once
// The functions of transformer_decoder.hpp.

#include <soma/nn/transformer_decoder.hpp>

#include <soma/autograd/sequence_functions.hpp>
#include <soma/nn/sequence_rows.hpp>
#include <soma/nn/transformer.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE Var CrossAttention::operator()(Tape& tape, const Var& x, const Var& memory,
                                           const Var& residual) const {
  const Var all = linear_at(parts.site, tape, memory, parts.weight, parts.bias);
  const Var mixed = cross_attention(tape, parts.query(tape, x), all,
                                    {parts.heads, parts.probabilities.setting(tape)});
  return parts.output(tape, mixed, {.dropout = parts.output_dropout.setting(tape)}, residual);
}

SOMA_INLINE void CrossAttention::collect(Collector& collector) const { parts.collect(collector); }

SOMA_INLINE TransformerDecoderLayer::TransformerDecoderLayer(const Scope& scope,
                                                             const TransformerOptions& options)
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

SOMA_INLINE Var TransformerDecoderLayer::operator()(Tape& tape, const Var& x,
                                                    const Var& memory) const {
  if (norm_first) {
    Var h = self_attention(tape, self_attention_norm(tape, x), x);
    h = cross_attention(tape, cross_attention_norm(tape, h), memory, h);
    return feed_forward(tape, outer_norm(tape, h), h);
  }
  Var h = self_attention_norm(tape, self_attention(tape, x, x));
  h = cross_attention_norm(tape, cross_attention(tape, h, memory, h));
  return outer_norm(tape, feed_forward(tape, h, h));
}

SOMA_INLINE void TransformerDecoderLayer::collect(Collector& collector) const {
  collector.part("self_attention", self_attention);
  collector.part("self_attention_norm", self_attention_norm);
  collector.part("cross_attention", cross_attention);
  collector.part("cross_attention_norm", cross_attention_norm);
  collector.part("inner", inner);
  collector.part("outer", outer);
  collector.part("outer_norm", outer_norm);
}

SOMA_INLINE TransformerOptions TransformerDecoderLayer::causal(TransformerOptions options) {
  options.causal = true;
  return options;
}

SOMA_INLINE Var TransformerDecoderLayer::feed_forward(Tape& tape, const Var& x,
                                                      const Var& residual) const {
  const Var h = inner(tape, x, {.activation = activation});
  return outer(tape, h, {.dropout = outer_dropout.setting(tape)}, residual);
}

SOMA_INLINE TransformerDecoder::TransformerDecoder(const Scope& scope,
                                                   const TransformerOptions& options) {
  for (std::size_t i = 0; i < options.layers; ++i)
    layers.emplace_back(scope / "layer" / std::to_string(i), options);
}

SOMA_INLINE Var TransformerDecoder::operator()(Tape& tape, const Var& x, const Var& memory) const {
  const SequenceRows own(tape, x), other(tape, memory);
  Var rows = own.rows();
  for (const TransformerDecoderLayer& layer : layers) rows = layer(tape, rows, other.rows());
  return own.back(tape, rows);
}

SOMA_INLINE void TransformerDecoder::collect(Collector& collector) const {
  for (std::size_t i = 0; i < layers.size(); ++i)
    collector.part("layer." + std::to_string(i), layers[i]);
}

}  // namespace SOMA_NAMESPACE::nn
