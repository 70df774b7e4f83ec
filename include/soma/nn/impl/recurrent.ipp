#pragma once
// The functions of recurrent.hpp.

#include <soma/nn/recurrent.hpp>

#include <soma/autograd/sequence_functions.hpp>
#include <soma/nn/layers.hpp>
#include <soma/nn/sequence_rows.hpp>
#include <soma/ops/fields.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE Var RecurrentResult::last(Tape& tape) const {
  return both ? concatenate(tape, {states[states.size() - 2], states.back()}, 1) : states.back();
}

}  // namespace SOMA_NAMESPACE::nn

namespace SOMA_NAMESPACE::nn::detail {

SOMA_INLINE std::string behind(const std::string& layer) {
  return layer.empty() ? layer : "_" + layer;
}

SOMA_INLINE RecurrentWeights::RecurrentWeights(const Scope& scope, std::size_t gates,
                                               std::size_t in, std::size_t hidden,
                                               const std::string& layer)
    : site(scope / ("weight_ih" + behind(layer))), suffix(behind(layer)) {
  const float bound = root_of_ratio(1, hidden);
  const auto make = [&](const char* name, const Shape& shape) {
    return initial_parameter(scope, shape, {Initial::uniform(bound, scope.draw(name + suffix))});
  };
  input_weight = make("weight_ih", Shape{gates * hidden, in});
  hidden_weight = make("weight_hh", Shape{gates * hidden, hidden});
  input_bias = make("bias_ih", Shape{gates * hidden});
  hidden_bias = make("bias_hh", Shape{gates * hidden});
}

SOMA_INLINE void RecurrentWeights::collect(Collector& collector) const {
  collector.add("weight_ih" + suffix, input_weight, ParameterRole::weight);
  collector.add("weight_hh" + suffix, hidden_weight, ParameterRole::weight);
  collector.add("bias_ih" + suffix, input_bias, ParameterRole::bias);
  collector.add("bias_hh" + suffix, hidden_bias, ParameterRole::bias);
}

}  // namespace SOMA_NAMESPACE::nn::detail

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE void fields(FieldVisitor& visitor, RecurrentOptions& options) {
  visitor.option("layers", options.layers, NumberRange::at_least(1));
  visitor.option("dropout", options.dropout, dropout_range);
}

SOMA_INLINE void RecurrentLayers::collect(Collector& collector) const {
  for (const detail::RecurrentWeights& layer : layers) layer.collect(collector);
}

SOMA_INLINE RecurrentLayers::RecurrentLayers(const Scope& scope, std::size_t gates, std::size_t in,
                                             std::size_t width, const RecurrentOptions& options)
    : hidden(width), both(options.bidirectional), path_(scope) {
  check_ranges("RecurrentLayers", options);
  if (width == 0) fail(error_id::operator_value, "RecurrentLayers", "hidden", "0", "1 or more");
  for (std::size_t i = 0; i < options.layers; ++i) {
    const std::string name = "l" + std::to_string(i);
    const std::size_t columns = i == 0 ? in : width * (both ? 2 : 1);
    layers.emplace_back(scope, gates, columns, width, name);
    if (both) layers.emplace_back(scope, gates, columns, width, name + "_reverse");
    if (i + 1 < options.layers) dropouts.emplace_back(scope / name, options.dropout);
  }
}

SOMA_INLINE Var RecurrentLayers::input_gates(Tape& tape, std::size_t layer, const Var& rows) const {
  const detail::RecurrentWeights& own = layers[layer];
  return linear_at(own.site, tape, rows, own.input_weight, own.input_bias);
}

SOMA_INLINE Var RecurrentLayers::first_of(std::span<const Var> states, std::size_t layer) const {
  if (states.empty()) return {};
  if (states.size() != layers.size())
    fail(error_id::operator_inputs, "RecurrentLayers", "states", std::to_string(states.size()),
         "one of each layer and direction, " + std::to_string(layers.size()));
  return states[layer];
}

SOMA_INLINE RecurrentResult Gru::operator()(Tape& tape, const Var& x,
                                            std::span<const Var> states) const {
  return run(tape, x,
             [&](std::size_t layer, RecurrentResult& result, const Var& rows,
                 const RecurrentSetting& setting) {
               const GruResult own =
                   gru(tape, input_gates(tape, layer, rows), layers[layer].hidden_weight,
                       layers[layer].hidden_bias, first_of(states, layer), setting);
               result.states.push_back(own.last);
               return own.rows;
             });
}

SOMA_INLINE RecurrentResult Lstm::operator()(Tape& tape, const Var& x, std::span<const Var> states,
                                             std::span<const Var> cells) const {
  return run(tape, x,
             [&](std::size_t layer, RecurrentResult& result, const Var& rows,
                 const RecurrentSetting& setting) {
               const LstmResult own =
                   lstm(tape, input_gates(tape, layer, rows), layers[layer].hidden_weight,
                        layers[layer].hidden_bias, first_of(states, layer), first_of(cells, layer),
                        setting);
               result.states.push_back(own.last);
               result.cells.push_back(own.cell);
               return own.rows;
             });
}

}  // namespace SOMA_NAMESPACE::nn
