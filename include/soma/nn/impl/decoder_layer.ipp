#pragma once
// The functions of decoder_layer.hpp.

#include <soma/nn/decoder_layer.hpp>

#include <soma/autograd/choosing.hpp>
#include <soma/autograd/functions.hpp>
#include <soma/autograd/recompute.hpp>
#include <soma/nn/initial.hpp>
#include <soma/nn/key_value_cache.hpp>
#include <soma/ops/fields.hpp>
#include <soma/ops/records.hpp>

#include <cstddef>
#include <span>
#include <string>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE void fields(FieldVisitor& visitor, DecoderOptions& options) {
  visitor.option("width", options.width, NumberRange::at_least(1));
  visitor.option("heads", options.heads, NumberRange::at_least(1));
  visitor.option("inner", options.inner, NumberRange::at_least(1));
  visitor.option("key_value_heads", options.key_value_heads);
  visitor.option("head_width", options.head_width);
  visitor.option("epsilon", options.epsilon, epsilon_range);
  visitor.option("dropout", options.dropout, dropout_range);
  visitor.option("attention_dropout", options.attention_dropout, dropout_range);
  visitor.option("rotary_base", options.rotary_base, NumberRange::at_least(0));
  visitor.option("standard_deviation", options.standard_deviation, NumberRange::at_least(0));
}

SOMA_INLINE DecoderNorm::DecoderNorm(const Scope& scope, const DecoderOptions& options)
    : rms(options.rms_norm) {
  if (rms)
    root = RmsNorm(scope, options.width, options.epsilon);
  else
    centred = LayerNorm(scope, options.width, options.epsilon);
}

SOMA_INLINE Var DecoderNorm::operator()(Tape& tape, const Var& x) const {
  return rms ? root(tape, x) : centred(tape, x);
}

SOMA_INLINE void DecoderNorm::collect(Collector& collector) const {
  rms ? root.collect(collector) : centred.collect(collector);
}

SOMA_INLINE CausalAttention::CausalAttention(const Scope& scope, const DecoderOptions& options)
    : heads(options.heads),
      key_value_heads(options.groups()),
      head_width(options.heads == 0 ? 0 : options.head_size()),
      rotary_base(options.rotary_base),
      rotary_scaling(options.rotary_scaling),
      site(scope),
      probabilities(scope / "probabilities", options.attention_dropout),
      output_dropout(scope / "output", options.dropout) {
  constexpr std::string_view operation = "CausalAttention";
  check_ranges(operation, options);
  if (heads % key_value_heads != 0)
    fail(error_id::operator_value, operation, "key_value_heads", std::to_string(key_value_heads),
         "a divisor of the number of heads, " + std::to_string(heads));
  if (options.head_width == 0 && options.width % heads != 0)
    fail(error_id::operator_value, operation, "heads", std::to_string(heads),
         "a divisor of the width, " + std::to_string(options.width) + ", or a head_width");
  if (rotary_base > 0 && head_width % 2 != 0)
    fail(error_id::operator_value, operation, "head_width", std::to_string(head_width),
         "an even number for rotary positions");
  const std::size_t queries = heads * head_width, keys = key_value_heads * head_width;
  const auto rows_of = [&](std::string_view name, std::size_t rows) {
    return Initial::normal(options.standard_deviation, (scope / name).draw("weight"), rows);
  };
  weight =
      initial_parameter(scope, Shape{queries + 2 * keys, options.width},
                        {rows_of("query", queries), rows_of("key", keys), rows_of("value", keys)});
  if (options.projection_bias)
    bias = initial_parameter(scope, Shape{queries + 2 * keys}, {Initial::full(0)});
  output = Linear(scope / "output", queries, options.width,
                  {.bias = options.output_bias, .standard_deviation = options.standard_deviation});
}

SOMA_INLINE Var CausalAttention::project(Tape& tape, const Var& x, const Var& begins) const {
  const Var all = linear_at(site, tape, x, weight, bias);
  if (!(rotary_base > 0)) return all;
  const std::size_t turned = heads + key_value_heads;  // queries and keys lie side by side
  const RotarySetting setting{.heads = turned,
                              .columns = turned * head_width,
                              .base = rotary_base,
                              .scaling = rotary_scaling};
  const Operator& rotary = *tape.operators().rotary;
  return begins.defined() ? tape.apply(rotary, setting, {all, begins})
                          : tape.apply(rotary, setting, {all});
}

SOMA_INLINE AttentionSetting CausalAttention::setting(Tape& tape) const {
  return {.heads = heads,
          .dropout = probabilities.setting(tape),
          .causal = true,
          .key_value_heads = key_value_heads,
          .head_width = head_width};
}

SOMA_INLINE Var CausalAttention::operator()(Tape& tape, const Var& x, const Var& residual) const {
  return output(tape, soma::attention(tape, project(tape, x, {}), setting(tape)),
                {.dropout = output_dropout.setting(tape)}, residual);
}

SOMA_INLINE Var CausalAttention::continued(Tape& tape, const Var& x, const Var& residual,
                                           KeyValueCache& cache, std::size_t layer) const {
  const Var all = project(tape, x, tape.constant(cache.first_positions()));
  const Var kept = tape.constant(cache.append(layer, all.value()), cache.sequences());
  const Var queries = slice(tape, all, 1, 0, heads * head_width);
  const Var mixed = tape.apply(*tape.operators().attention, setting(tape),
                               {kept, queries, Var(), tape.constant(cache.query_begins())});
  return output(tape, mixed, {.dropout = output_dropout.setting(tape)}, residual);
}

SOMA_INLINE void CausalAttention::collect_together(Collector& collector) const {
  collector.product("", weight, site);
  if (bias.defined()) collector.add("bias", bias, ParameterRole::bias);
}

SOMA_INLINE void CausalAttention::collect_apart(Collector& collector, const char* query,
                                                const char* key, const char* value) const {
  const std::size_t queries = heads * head_width, keys = key_value_heads * head_width;
  const auto rows = [&](const std::string& name, std::size_t first, std::size_t count) {
    collector.product(name, weight, site, first, first + count);
    if (bias.defined())
      collector.add_rows(name + ".bias", bias, first, first + count, ParameterRole::bias);
  };
  rows(query, 0, queries);
  rows(key, queries, keys);
  rows(value, queries + keys, keys);
}

SOMA_INLINE void CausalAttention::collect(Collector& collector) const {
  collect_apart(collector, "query", "key", "value");
  collector.part("output", output);
}

SOMA_INLINE DecoderLayer::DecoderLayer(const Scope& scope, const DecoderOptions& options)
    : attention_norm(scope / "attention_norm", options),
      attention(scope / "attention", options),
      inner_norm(scope / "inner_norm", options),
      inner(scope / "inner", options.width, (options.gated ? 2 : 1) * options.inner,
            {.bias = options.inner_bias, .standard_deviation = options.standard_deviation}),
      outer(scope / "outer", options.inner, options.width,
            {.bias = options.inner_bias, .standard_deviation = options.standard_deviation}),
      outer_dropout(scope / "outer", options.dropout),
      activation(options.activation),
      gated(options.gated) {}

SOMA_INLINE Var DecoderLayer::operator()(Tape& tape, const Var& x) const {
  const Var h = attention(tape, attention_norm(tape, x), x);
  return feed_forward(tape, inner_norm(tape, h), h);
}

SOMA_INLINE Var DecoderLayer::continued(Tape& tape, const Var& x, KeyValueCache& cache,
                                        std::size_t layer) const {
  const Var h = attention.continued(tape, attention_norm(tape, x), x, cache, layer);
  return feed_forward(tape, inner_norm(tape, h), h);
}

SOMA_INLINE Var DecoderLayer::recomputed(Tape& tape, const Var& x) const {
  return recompute(tape, std::span<const Var>(&x, 1),
                   [layer = *this](Tape& again, std::span<const Var> inputs) {
                     return layer(again, inputs[0]);
                   });
}

SOMA_INLINE void DecoderLayer::collect(Collector& collector) const {
  collector.part("attention_norm", attention_norm);
  collector.part("attention", attention);
  collector.part("inner_norm", inner_norm);
  collector.part("inner", inner);
  collector.part("outer", outer);
}

SOMA_INLINE Var DecoderLayer::feed_forward(Tape& tape, const Var& x, const Var& residual) const {
  const Var h =
      gated ? soma::gated(tape, inner(tape, x)) : inner(tape, x, {.activation = activation});
  return outer(tape, h, {.dropout = outer_dropout.setting(tape)}, residual);
}

}  // namespace SOMA_NAMESPACE::nn
