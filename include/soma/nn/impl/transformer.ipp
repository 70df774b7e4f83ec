#pragma once
// The functions of transformer.hpp.

#include <soma/nn/transformer.hpp>

#include <soma/nn/layers.hpp>
#include <soma/nn/sequence_rows.hpp>
#include <soma/ops/fields.hpp>
#include <soma/ops/records.hpp>
#include <soma/ops/sequence/settings.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE void fields(FieldVisitor& visitor, TransformerOptions& options) {
  visitor.option("width", options.width, NumberRange::at_least(1));
  visitor.option("heads", options.heads, NumberRange::at_least(1));
  visitor.option("inner", options.inner);
  visitor.option("layers", options.layers);
  visitor.option("dropout", options.dropout, dropout_range);
  visitor.option("attention_dropout", options.attention_dropout, dropout_range);
  visitor.option("epsilon", options.epsilon, epsilon_range);
  visitor.option("standard_deviation", options.standard_deviation, NumberRange::at_least(0));
  visitor.option("rotary_base", options.rotary_base, NumberRange::at_least(0));
}

SOMA_INLINE MultiHeadAttention::MultiHeadAttention(const Scope& scope,
                                                   const TransformerOptions& options,
                                                   bool queries_apart)
    : heads(options.heads),
      causal(options.causal),
      rotary_base(options.rotary_base),
      site(scope),
      probabilities(scope / "probabilities", options.attention_dropout),
      output_dropout(scope / "output", options.attention_output_dropout ? options.dropout : 0),
      output(scope / "output", options.width, options.width,
             {.standard_deviation = options.standard_deviation}) {
  check_ranges("MultiHeadAttention", options);
  if (options.width % heads != 0)
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
    weight = initial_parameter(scope, Shape{2 * width, width}, {rows_of("key"), rows_of("value")});
  else
    weight = initial_parameter(scope, Shape{3 * width, width},
                               {rows_of("query"), rows_of("key"), rows_of("value")});
  bias = initial_parameter(scope, Shape{weight.shape()[0]}, {Initial::full(0)});
}

SOMA_INLINE Var MultiHeadAttention::operator()(Tape& tape, const Var& x, const Var& residual,
                                               const Var& first, const Var& mask) const {
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

SOMA_INLINE void MultiHeadAttention::collect(Collector& collector) const {
  collect_projections(collector);
  collector.part("output", output);
}

SOMA_INLINE void MultiHeadAttention::collect_projections(Collector& collector,
                                                         const ProjectionNames& called) const {
  const std::size_t width = weight.shape()[1];
  if (query.weight.defined()) collector.part(called[0], query);
  const std::size_t apart = query.weight.defined() ? 1 : 0;
  for (std::size_t i = 0; i + apart < called.size(); ++i) {
    const std::string name = called[i + apart];
    collector.product(name, weight, site, i * width, (i + 1) * width);
    collector.add_rows(name + ".bias", bias, i * width, (i + 1) * width, ParameterRole::bias);
  }
}

SOMA_INLINE void MultiHeadAttention::turn(Tape& tape, Var& all, Var& queries) const {
  const std::size_t width = weight.shape()[1], parts = queries.defined() ? 1 : 2;
  const auto turned = [&](const Var& x, const RotarySetting& setting) {
    return tape.apply(*tape.operators().rotary, setting, {x});
  };
  all = turned(all, {.heads = parts * heads, .columns = parts * width, .base = rotary_base});
  if (queries.defined()) queries = turned(queries, {.heads = heads, .base = rotary_base});
}

SOMA_INLINE std::span<const char* const> MultiHeadAttention::names_together() const {
  return std::span(projection_names).subspan(query.weight.defined() ? 1 : 0);
}

SOMA_INLINE TransformerEncoderLayer::TransformerEncoderLayer(const Scope& scope,
                                                             const TransformerOptions& options,
                                                             bool queries_apart)
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

SOMA_INLINE Var TransformerEncoderLayer::operator()(Tape& tape, const Var& x, bool first_rows,
                                                    const Var& mask) const {
  return last_norm(tape, sum(tape, x, first_rows, mask));
}

SOMA_INLINE Var TransformerEncoderLayer::recomputed(Tape& tape, const Var& x,
                                                    const Var& mask) const {
  return last_norm(tape, recompute(tape, std::span<const Var>(&x, 1),
                                   [layer = *this, mask](Tape& again, std::span<const Var> inputs) {
                                     return layer.sum(again, inputs[0], false, mask);
                                   }));
}

SOMA_INLINE void TransformerEncoderLayer::collect(Collector& collector) const {
  collector.part("attention", attention);
  collector.part("attention_norm", attention_norm);
  collector.part("inner", inner);
  collector.part("outer", outer);
  collector.part("outer_norm", outer_norm);
}

SOMA_INLINE Var TransformerEncoderLayer::sum(Tape& tape, const Var& x, bool first_rows,
                                             const Var& mask) const {
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

SOMA_INLINE Var TransformerEncoderLayer::last_norm(Tape& tape, const Var& sum) const {
  return norm_first ? sum : outer_norm(tape, sum);
}

SOMA_INLINE Var TransformerEncoderLayer::feed_forward(Tape& tape, const Var& x,
                                                      const Var& residual) const {
  const Var h = inner(tape, x, {.activation = activation});
  return outer(tape, h, {.dropout = outer_dropout.setting(tape)}, residual);
}

SOMA_INLINE TransformerEncoder::TransformerEncoder(const Scope& scope,
                                                   const TransformerOptions& options) {
  for (std::size_t i = 0; i < options.layers; ++i)
    layers.emplace_back(scope / "layer" / std::to_string(i), options, i + 1 == options.layers);
}

SOMA_INLINE Var TransformerEncoder::operator()(Tape& tape, Var x,
                                               const EncoderSetting& setting) const {
  const SequenceRows batch(tape, x);
  x = batch.rows();
  for (std::size_t i = 0; i < layers.size(); ++i) x = run_layer(i, tape, x, setting);
  if (setting.first_rows) return layers.empty() ? sequence_first(tape, x) : x;
  return batch.back(tape, x);
}

SOMA_INLINE Var TransformerEncoder::run_layer(std::size_t i, Tape& tape, const Var& x,
                                              const EncoderSetting& setting) const {
  if (i + 1 == layers.size()) return layers[i](tape, x, setting.first_rows, setting.mask);
  return setting.recompute ? layers[i].recomputed(tape, x, setting.mask)
                           : layers[i](tape, x, false, setting.mask);
}

SOMA_INLINE void TransformerEncoder::collect(Collector& collector) const {
  for (std::size_t i = 0; i < layers.size(); ++i)
    collector.part("layer." + std::to_string(i), layers[i]);
}

}  // namespace SOMA_NAMESPACE::nn
