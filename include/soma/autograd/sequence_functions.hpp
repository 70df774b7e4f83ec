#pragma once
// Functions over sequences beyond those of functions.hpp: recurrent layers, rotary positions,
// attention to other sequences. The operators' files in ops/sequence/ and ops/attention/ have
// shapes, errors and formulas.

#include <soma/autograd/functions.hpp>
#include <soma/ops/sequence/settings.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

struct GruResult {
  Var rows;  // [rows, H], the state after each row
  Var last;  // [sequences, H]
};
// x [rows, 3 H] holds the input gates of rows that form sequences; weight is [3 H, H]. bias [3 H]
// and the first states [sequences, H] are optional.
GruResult gru(Tape& tape, const Var& x, const Var& weight, const Var& bias = {},
              const Var& state = {}, const RecurrentSetting& setting = {});

struct LstmResult {
  Var rows;        // [rows, H], the state after each row
  Var last, cell;  // [sequences, H] each
};
// The same with gates of 4 H columns, and first cells.
LstmResult lstm(Tape& tape, const Var& x, const Var& weight, const Var& bias = {},
                const Var& state = {}, const Var& cell = {}, const RecurrentSetting& setting = {});

// The same with x [rows, H], a weight [H, H] and no gates: tanh(x + state weight^T + bias), or its
// part above 0.
GruResult rnn(Tape& tape, const Var& x, const Var& weight, const Var& bias = {},
              const Var& state = {}, const RnnSetting& setting = {});

// [rows, C] whose rows form sequences to [sequences, C]: the mean of each sequence's rows, or the
// largest element of each column. Rows of padding do not count.
Var sequence_mean(Tape& tape, const Var& x);
Var sequence_max(Tape& tape, const Var& x);

// x [rows, C] whose rows form sequences, or [..., T, C].
Var rotary(Tape& tape, const Var& x, const RotarySetting& setting);

// Each sequence of queries [rows, C] sees the sequence of the same number of keys and values
// [other rows, 2 C]; the result is [rows, C]. Errors as attention, operator.sequences (another
// number of sequences).
Var cross_attention(Tape& tape, const Var& queries, const Var& keys_values,
                    const AttentionSetting& setting, const Var& mask = {});

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/autograd/impl/sequence_functions.ipp>
#endif
