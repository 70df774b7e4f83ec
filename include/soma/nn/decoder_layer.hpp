#pragma once
// DecoderLayer: a layer of a decoder-only language model, over ragged batches. Norms come first
// (arXiv 2002.04745) and a row attends to itself and to earlier rows of its sequence:
//     h = x + dropout(output(attention(norm(x))))
//     y = h + dropout(outer(activation(inner(norm(h)))))
// The options give the layers of GPT-2 (LayerNorm, biases, gelu) and of Llama (RMSNorm, grouped
// queries, rotary positions, a gated feed-forward part).

#include <soma/nn/layers.hpp>
#include <soma/nn/norms.hpp>
#include <soma/ops/sequence/settings.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace SOMA_NAMESPACE::nn {

class KeyValueCache;  // nn/key_value_cache.hpp

struct DecoderOptions {
  std::size_t width = 0, heads = 1, inner = 0;  // C, H, width of the feed-forward part
  std::size_t key_value_heads = 0;              // K, a divisor of H; 0: all heads
  std::size_t head_width = 0;                   // D; 0: C / H
  bool rms_norm = false;                        // RmsNorm, not LayerNorm
  float epsilon = 1e-5f;
  // The feed-forward part is outer(silu(gate(x)) * up(x)), not outer(activation(inner(x))).
  bool gated = false;
  Activation activation = Activation::gelu_tanh;  // for a part that is not gated
  bool projection_bias = true;                    // for queries, keys and values
  bool output_bias = true, inner_bias = true;     // after attention, and in the feed-forward part
  float dropout = 0, attention_dropout = 0;
  // Above 0: rotary positions (arXiv 2104.09864) with that base turn queries and keys; D is even.
  float rotary_base = 0;
  RotaryScaling rotary_scaling{};
  float standard_deviation = 0.02f;  // for initial weights

  std::size_t groups() const { return key_value_heads == 0 ? heads : key_value_heads; }
  std::size_t head_size() const { return head_width == 0 ? width / heads : head_width; }
};
void fields(FieldVisitor& visitor, DecoderOptions& options);

// LayerNorm or RmsNorm.
class DecoderNorm {
 public:
  DecoderNorm() = default;
  DecoderNorm(const Scope& scope, const DecoderOptions& options);
  Var operator()(Tape& tape, const Var& x) const;
  void collect(Collector& collector) const;

  LayerNorm centred;  // if not rms
  RmsNorm root;
  bool rms = false;
};

// Queries, keys and values of all heads come from one product; weight is [(H + 2 K) D, C].
class CausalAttention {
 public:
  CausalAttention() = default;
  // Error operator.value: K does not divide H, D is 0, or D is odd with rotary positions.
  CausalAttention(const Scope& scope, const DecoderOptions& options);

  // residual + dropout(output(attention(x))).
  Var operator()(Tape& tape, const Var& x, const Var& residual) const;
  // The same for the cache's new rows, which see the rows that it keeps. For tapes that do not
  // record.
  Var continued(Tape& tape, const Var& x, const Var& residual, KeyValueCache& cache,
                std::size_t layer) const;
  // The projections as one parameter of the names "weight" and "bias", or as three.
  void collect_together(Collector& collector) const;
  void collect_apart(Collector& collector, const char* query, const char* key,
                     const char* value) const;
  void collect(Collector& collector) const;

  std::size_t heads = 1, key_value_heads = 1, head_width = 0;
  float rotary_base = 0;
  RotaryScaling rotary_scaling{};
  ProductSite site;  // for the projections
  Dropout probabilities, output_dropout;
  Linear output;
  Var weight, bias;  // [(H + 2 K) D, C], [(H + 2 K) D]

 private:
  struct Together;
  // Queries, keys and values side by side, turned. `begins`: the position of the first row of each
  // sequence; not defined(): 0.
  Var project(Tape& tape, const Var& x, const Var& begins) const;
  AttentionSetting setting(Tape& tape) const;
};

class DecoderLayer {
 public:
  DecoderLayer() = default;
  DecoderLayer(const Scope& scope, const DecoderOptions& options);

  // Rows [rows, C] that form sequences to as many.
  Var operator()(Tape& tape, const Var& x) const;
  // The same for new rows of sequences whose earlier rows the cache has: the bits of all rows at
  // once. `layer`: its number in the cache.
  Var continued(Tape& tape, const Var& x, KeyValueCache& cache, std::size_t layer) const;
  // The same, but only x is kept: backward computes the rest again. The same bits.
  Var recomputed(Tape& tape, const Var& x) const;
  void collect(Collector& collector) const;

  DecoderNorm attention_norm;
  CausalAttention attention;
  DecoderNorm inner_norm;
  Linear inner, outer;  // with `gated`, inner is [2 I, C]: the rows of the gate, then those of up
  Dropout outer_dropout;
  Activation activation = Activation::gelu_tanh;
  bool gated = false;

 private:
  Var feed_forward(Tape& tape, const Var& x, const Var& residual) const;
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/decoder_layer.ipp>
#endif
