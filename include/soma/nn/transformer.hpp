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

namespace soma::nn {

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

// Queries, keys and values of all heads come from one matrix product: weight is [3 C, C], queries
// first. With `queries_apart`, queries have a weight of their own, so that they can be computed for
// some rows only, and the other weight is [2 C, C]. Either way they are named as three parameters.
class MultiHeadAttention {
 public:
  MultiHeadAttention() = default;
  // Error operator.value: the width is no multiple of the number of heads.
  MultiHeadAttention(const Scope& scope, const TransformerOptions& options,
                     bool queries_apart = false)
      : heads(options.heads),
        causal(options.causal),
        rotary_base(options.rotary_base),
        site(scope),
        probabilities(scope / "probabilities", options.attention_dropout),
        output_dropout(scope / "output", options.attention_output_dropout ? options.dropout : 0),
        output(scope / "output", options.width, options.width,
               {.standard_deviation = options.standard_deviation}) {
    if (heads == 0 || options.width % heads != 0)
      fail(error_id::operator_value, "MultiHeadAttention", "heads", std::to_string(heads),
           "a divisor of the width, " + std::to_string(options.width));
    const std::size_t width = options.width;
    if (queries_apart)
      query =
          Linear(scope / "query", width, width, {.standard_deviation = options.standard_deviation});
    const auto rows_of = [&](std::string_view name) {
      return Initial::normal(options.standard_deviation, (scope / name).draw("weight"), width);
    };
    if (queries_apart)
      weight =
          initial_parameter(scope, Shape{2 * width, width}, {rows_of("key"), rows_of("value")});
    else
      weight = initial_parameter(scope, Shape{3 * width, width},
                                 {rows_of("query"), rows_of("key"), rows_of("value")});
    bias = initial_parameter(scope, Shape{weight.shape()[0]}, {Initial::full(0)});
  }

  // residual + dropout(output(attention(x))): the last product fuses the addition. Rows of x form
  // sequences. With `first`, which holds the first row of each sequence, only these rows are
  // queries and have a residual. `mask`: as for attention().
  Var operator()(Tape& tape, const Var& x, const Var& residual, const Var& first = {},
                 const Var& mask = {}) const {
    Var all = linear_at(site, tape, x, weight, bias), queries;
    if (query.weight.defined()) {
      queries = query(tape, first.defined() ? first : x);
    } else if (first.defined()) {
      const std::size_t width = weight.shape()[1];
      queries = sequence_first(tape, slice(tape, all, 1, 0, width));
      all = slice(tape, all, 1, width);
    }
    if (rotary_base > 0) turn(tape, all, queries);
    const AttentionSetting setting{heads, probabilities.setting(tape), first.defined(), causal};
    return output(tape, attention(tape, all, setting, queries, mask),
                  {.dropout = output_dropout.setting(tape)}, residual);
  }
  void collect(Collector& collector) const {
    collect_projections(collector);
    collector.part("output", output);
  }
  using ProjectionNames = std::array<const char*, 3>;
  // `called`: the names of queries, keys and values.
  void collect_projections(Collector& collector,
                           const ProjectionNames& called = projection_names) const {
    const std::size_t width = weight.shape()[1];
    if (query.weight.defined()) collector.part(called[0], query);
    const std::size_t apart = query.weight.defined() ? 1 : 0;
    for (std::size_t i = 0; i + apart < called.size(); ++i) {
      const std::string name = called[i + apart];
      collector.add_rows(name + ".weight", weight, i * width, (i + 1) * width,
                         ParameterRole::weight);
      collector.add_rows(name + ".bias", bias, i * width, (i + 1) * width, ParameterRole::bias);
    }
  }

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
  void turn(Tape& tape, Var& all, Var& queries) const {
    const std::size_t width = weight.shape()[1], parts = queries.defined() ? 1 : 2;
    const auto turned = [&](const Var& x, const RotarySetting& setting) {
      return tape.apply(*tape.operators().rotary, setting, {x});
    };
    all = turned(all, {.heads = parts * heads, .columns = parts * width, .base = rotary_base});
    if (queries.defined()) queries = turned(queries, {.heads = heads, .base = rotary_base});
  }
  static constexpr ProjectionNames projection_names = {"query", "key", "value"};
  // The names of the projections that share a matrix.
  std::span<const char* const> names_together() const {
    return std::span(projection_names).subspan(query.weight.defined() ? 1 : 0);
  }
};

class TransformerEncoderLayer {
 public:
  TransformerEncoderLayer() = default;
  TransformerEncoderLayer(const Scope& scope, const TransformerOptions& options,
                          bool queries_apart = false)
      : attention(scope / "attention", options, queries_apart),
        attention_norm(scope / "attention_norm", options.width, options.epsilon),
        inner(scope / "inner", options.width, options.inner,
              {.standard_deviation = options.standard_deviation}),
        outer(scope / "outer", options.inner, options.width,
              {.standard_deviation = options.standard_deviation}),
        outer_dropout(scope / "outer", options.dropout),
        outer_norm(scope / "outer_norm", options.width, options.epsilon),
        activation(options.activation),
        norm_first(options.norm_first) {}

  // Maps the rows of x to the same number of rows, or with `first_rows` to the first rows of
  // sequences, [sequences, C], with the same bits. For other rows only keys and values are then
  // computed, and queries unless they are apart.
  Var operator()(Tape& tape, const Var& x, bool first_rows = false, const Var& mask = {}) const {
    return last_norm(tape, sum(tape, x, first_rows, mask));
  }
  // The same, but only x and the sum are kept: backward computes the rest again.
  Var recomputed(Tape& tape, const Var& x, const Var& mask = {}) const {
    return last_norm(tape,
                     recompute(tape, std::span<const Var>(&x, 1),
                               [layer = *this, mask](Tape& again, std::span<const Var> inputs) {
                                 return layer.sum(again, inputs[0], false, mask);
                               }));
  }
  void collect(Collector& collector) const {
    collector.part("attention", attention);
    collector.part("attention_norm", attention_norm);
    collector.part("inner", inner);
    collector.part("outer", outer);
    collector.part("outer_norm", outer_norm);
  }

  MultiHeadAttention attention;
  LayerNorm attention_norm;
  Linear inner, outer;
  Dropout outer_dropout;
  LayerNorm outer_norm;
  Activation activation = Activation::gelu;
  bool norm_first = false;

 private:
  // The layer up to the last addition.
  Var sum(Tape& tape, const Var& x, bool first_rows, const Var& mask) const {
    const auto first_of = [&](const Var& rows) {
      return first_rows ? sequence_first(tape, rows) : Var();
    };
    const Var first = first_of(x), residual = first_rows ? first : x;
    if (norm_first) {
      const Var rows = attention_norm(tape, x);
      const Var h = attention(tape, rows, residual, first_of(rows), mask);
      return feed_forward(tape, outer_norm(tape, h), h);
    }
    const Var h = attention_norm(tape, attention(tape, x, residual, first, mask));
    return feed_forward(tape, h, h);
  }
  Var last_norm(Tape& tape, const Var& sum) const {
    return norm_first ? sum : outer_norm(tape, sum);
  }
  Var feed_forward(Tape& tape, const Var& x, const Var& residual) const {
    const Var h = inner(tape, x, {.activation = activation});
    return outer(tape, h, {.dropout = outer_dropout.setting(tape)}, residual);
  }
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
  TransformerEncoder(const Scope& scope, const TransformerOptions& options) {
    for (std::size_t i = 0; i < options.layers; ++i)
      layers.emplace_back(scope / "layer" / std::to_string(i), options, i + 1 == options.layers);
  }
  Var operator()(Tape& tape, Var x, const EncoderSetting& setting = {}) const {
    const SequenceRows batch(tape, x);
    x = batch.rows();
    for (std::size_t i = 0; i < layers.size(); ++i) x = run_layer(i, tape, x, setting);
    if (setting.first_rows) return layers.empty() ? sequence_first(tape, x) : x;
    return batch.back(tape, x);
  }
  // One layer of the encoder, for rows that form sequences.
  Var run_layer(std::size_t i, Tape& tape, const Var& x, const EncoderSetting& setting = {}) const {
    if (i + 1 == layers.size()) return layers[i](tape, x, setting.first_rows, setting.mask);
    return setting.recompute ? layers[i].recomputed(tape, x, setting.mask)
                             : layers[i](tape, x, false, setting.mask);
  }
  void collect(Collector& collector) const {
    for (std::size_t i = 0; i < layers.size(); ++i)
      collector.part("layer." + std::to_string(i), layers[i]);
  }

  std::vector<TransformerEncoderLayer> layers;
};

}  // namespace soma::nn
