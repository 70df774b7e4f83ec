#pragma once
// The functions of sequence_functions.hpp.

#include <soma/autograd/sequence_functions.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/ops/records.hpp>
#include <soma/ops/sequence/settings.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

SOMA_INLINE GruResult gru(Tape& tape, const Var& x, const Var& weight, const Var& bias,
                          const Var& state, const RecurrentSetting& setting) {
  const Var inputs[] = {x, weight, bias, state};
  const VarOutputs outputs = tape.apply_all(*tape.operators().gru, setting, inputs);
  return {outputs[0], outputs[1]};
}

SOMA_INLINE LstmResult lstm(Tape& tape, const Var& x, const Var& weight, const Var& bias,
                            const Var& state, const Var& cell, const RecurrentSetting& setting) {
  const Var inputs[] = {x, weight, bias, state, cell};
  const VarOutputs outputs = tape.apply_all(*tape.operators().lstm, setting, inputs);
  return {outputs[0], outputs[1], outputs[2]};
}

SOMA_INLINE GruResult rnn(Tape& tape, const Var& x, const Var& weight, const Var& bias,
                          const Var& state, const RnnSetting& setting) {
  const Var inputs[] = {x, weight, bias, state};
  const VarOutputs outputs = tape.apply_all(*tape.operators().rnn, setting, inputs);
  return {outputs[0], outputs[1]};
}

SOMA_INLINE Var sequence_mean(Tape& tape, const Var& x) {
  return tape.apply(*tape.operators().sequence_pool, SequencePoolSetting{}, {x});
}

SOMA_INLINE Var sequence_max(Tape& tape, const Var& x) {
  return tape.apply(*tape.operators().sequence_pool, SequencePoolSetting{.largest = true}, {x});
}

SOMA_INLINE Var rotary(Tape& tape, const Var& x, const RotarySetting& setting) {
  return tape.apply(*tape.operators().rotary, setting, {x});
}

SOMA_INLINE Var cross_attention(Tape& tape, const Var& queries, const Var& keys_values,
                                const AttentionSetting& setting, const Var& mask) {
  const Sequences &own = queries.sequences(), &others = keys_values.sequences();
  if (!own.defined() || !others.defined() || own.count() != others.count())
    fail(error_id::operator_sequences, "cross_attention", "queries",
         own.defined() && others.defined() ? std::to_string(own.count()) + " sequences"
                                           : std::string("without sequences"),
         "the number of sequences of keys and values");
  const Tensor begins = Tensor::empty(tape.context(), Shape{own.count() + 1}, DType::int64);
  auto* next = begins.mutable_data<std::int64_t>();
  for (const std::size_t offset : own.offsets()) *next++ = static_cast<std::int64_t>(offset);
  return tape.apply(*tape.operators().attention, setting,
                    {keys_values, queries, mask, tape.constant(begins)});
}

}  // namespace SOMA_NAMESPACE
