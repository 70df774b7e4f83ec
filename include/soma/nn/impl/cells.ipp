#pragma once
// The functions of cells.hpp.

#include <soma/nn/cells.hpp>

#include <soma/autograd/sequence_functions.hpp>
#include <soma/base/record.hpp>
#include <soma/nn/recurrent.hpp>
#include <soma/nn/sequence_rows.hpp>

#include <cstddef>
#include <span>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE RecurrentResult Rnn::operator()(Tape& tape, const Var& x,
                                            std::span<const Var> states) const {
  return run(tape, x,
             [&](std::size_t layer, RecurrentResult& result, const Var& rows,
                 const RecurrentSetting& setting) {
               const GruResult own =
                   rnn(tape, input_gates(tape, layer, rows), layers[layer].hidden_weight,
                       layers[layer].hidden_bias, first_of(states, layer), {setting.reverse, relu});
               result.states.push_back(own.last);
               return own.rows;
             });
}

SOMA_INLINE void Rnn::describe(Record& record) const { record.set("relu", relu); }

SOMA_INLINE RecurrentCell::RecurrentCell(const Scope& scope, std::size_t gates, std::size_t in,
                                         std::size_t width)
    : weights(scope, gates, in, width == 0 ? 1 : width, ""), path_(scope) {
  if (width == 0) fail(error_id::operator_value, "RecurrentCell", "hidden", "0", "1 or more");
}

SOMA_INLINE void RecurrentCell::collect(Collector& collector) const { weights.collect(collector); }

SOMA_INLINE Var RecurrentCell::gates_of(Tape& tape, const Var& x) const {
  const auto within = tape.within(path_.view());
  const Shape& shape = x.shape();
  if (shape.rank() != 2)
    fail(error_id::tensor_rank, "RecurrentCell", "x", x.value().describe(), "[B, in]");
  const SequenceRows rows(tape, reshape(tape, x, Shape{shape[0], 1, shape[1]}));
  return linear_at(weights.site, tape, rows.rows(), weights.input_weight, weights.input_bias);
}

SOMA_INLINE Var RecurrentCell::state_of(Tape& tape, const Var& last, const Var& x) {
  return tape.with_sequences(last, x.sequences());
}

SOMA_INLINE CellState RnnCell::operator()(Tape& tape, const Var& x, const CellState& before) const {
  const GruResult now = rnn(tape, gates_of(tape, x), weights.hidden_weight, weights.hidden_bias,
                            before.state, {.relu = relu});
  return {state_of(tape, now.last, x)};
}

SOMA_INLINE void RnnCell::describe(Record& record) const { record.set("relu", relu); }

SOMA_INLINE CellState GruCell::operator()(Tape& tape, const Var& x, const CellState& before) const {
  const GruResult now =
      gru(tape, gates_of(tape, x), weights.hidden_weight, weights.hidden_bias, before.state);
  return {state_of(tape, now.last, x)};
}

SOMA_INLINE CellState LstmCell::operator()(Tape& tape, const Var& x,
                                           const CellState& before) const {
  const LstmResult now = lstm(tape, gates_of(tape, x), weights.hidden_weight, weights.hidden_bias,
                              before.state, before.cell);
  return {state_of(tape, now.last, x), state_of(tape, now.cell, x)};
}

}  // namespace SOMA_NAMESPACE::nn
