#pragma once
// Functions over sequences beyond those of functions.hpp: recurrent layers, rotary positions,
// attention to other sequences. The operators' files in ops/sequence/ and ops/attention/ have
// shapes, errors and formulas.

#include <soma/autograd/functions.hpp>
#include <soma/ops/sequence/settings.hpp>

#include <cstddef>
#include <cstdint>

namespace soma {

struct GruResult {
  Var rows;  // [rows, H], the state after each row
  Var last;  // [sequences, H]
};
// x [rows, 3 H] holds the input gates of rows that form sequences; weight is [3 H, H]. bias [3 H]
// and the first states [sequences, H] are optional.
inline GruResult gru(Tape& tape, const Var& x, const Var& weight, const Var& bias = {},
                     const Var& state = {}, const RecurrentSetting& setting = {}) {
  const Var inputs[] = {x, weight, bias, state};
  const VarOutputs outputs = tape.apply_all(*tape.operators().gru, setting, inputs);
  return {outputs[0], tape.with_sequences(outputs[1], x.sequences().summary(tape.context()))};
}

struct LstmResult {
  Var rows;        // [rows, H], the state after each row
  Var last, cell;  // [sequences, H] each
};
// The same with gates of 4 H columns, and first cells.
inline LstmResult lstm(Tape& tape, const Var& x, const Var& weight, const Var& bias = {},
                       const Var& state = {}, const Var& cell = {},
                       const RecurrentSetting& setting = {}) {
  const Var inputs[] = {x, weight, bias, state, cell};
  const VarOutputs outputs = tape.apply_all(*tape.operators().lstm, setting, inputs);
  const Sequences summary = x.sequences().summary(tape.context());
  return {outputs[0], tape.with_sequences(outputs[1], summary),
          tape.with_sequences(outputs[2], summary)};
}

// x [rows, C] whose rows form sequences, or [..., T, C].
inline Var rotary(Tape& tape, const Var& x, const RotarySetting& setting) {
  return tape.apply(*tape.operators().rotary, setting, {x});
}

// Each sequence of queries [rows, C] sees the sequence of the same number of keys and values
// [other rows, 2 C]; the result is [rows, C]. Errors as attention, operator.sequences (another
// number of sequences).
inline Var cross_attention(Tape& tape, const Var& queries, const Var& keys_values,
                           const AttentionSetting& setting, const Var& mask = {}) {
  const Sequences &own = queries.sequences(), &others = keys_values.sequences();
  if (!own.defined() || !others.defined() || own.count() != others.count())
    fail(error_id::operator_sequences, "cross_attention", "queries",
         own.defined() && others.defined() ? std::to_string(own.count()) + " sequences"
                                           : std::string("without sequences"),
         "the number of sequences of keys and values");
  const Tensor begins = Tensor::empty(tape.context(), Shape{own.count() + 1}, DType::int64);
  auto* next = begins.mutable_data<std::int64_t>();
  for (const std::size_t offset : own.offsets()) *next++ = static_cast<std::int64_t>(offset);
  const Var y = tape.apply(*tape.operators().attention, setting,
                           {keys_values, queries, mask, tape.constant(begins)});
  return tape.with_sequences(y, own);
}

}  // namespace soma
