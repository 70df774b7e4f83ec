#pragma once
// The functions of sequence_rows.hpp.

#include <soma/nn/sequence_rows.hpp>

#include <soma/autograd/functions.hpp>

#include <cstddef>
#include <string>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE SequenceRows::SequenceRows(Tape& tape, const Var& x) : rows_(x), shape_(x.shape()) {
  if (shape_.rank() == 2) return;
  if (shape_.rank() != 3)
    fail(error_id::tensor_rank, "SequenceRows", "x", x.value().describe(),
         "[rows, C] or [B, T, C]");
  Context& context = tape.context();
  batch_ = x.sequences();
  if (batch_.defined() && !batch_.place().leads())
    fail(error_id::operator_sequences, "SequenceRows", "x",
         x.value().describe() + " with the batch in dimension " +
             std::to_string(batch_.place().dimension),
         "[B, T, C] (transpose)");
  const Sequences each = batch_.defined() ? batch_ : Sequences::uniform(context, shape_[0]);
  rows_ = tape.with_sequences(reshape(tape, x, Shape{shape_[0] * shape_[1], shape_[2]}),
                              each.lengthened(context, shape_[1]));
}

SOMA_INLINE bool SequenceRows::dense() const { return shape_.rank() == 3; }

SOMA_INLINE Var SequenceRows::back(Tape& tape, const Var& y) const {
  if (!dense()) return y;
  return tape.with_sequences(reshape(tape, y, Shape{shape_[0], shape_[1], y.shape().columns()}),
                             batch_);
}

}  // namespace SOMA_NAMESPACE::nn
