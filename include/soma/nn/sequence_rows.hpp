#pragma once
// SequenceRows: a batch of sequences as rows, from a ragged batch or from [B, T, C].

#include <soma/autograd/functions.hpp>

#include <cstddef>
#include <string>

namespace soma::nn {

class SequenceRows {
 public:
  // x is [rows, C], which stays as it is, or [B, T, C]: B sequences of T rows each. Errors
  // tensor.rank, ragged.ordinals (the first dimension of [B, T, C] has sequences of several rows).
  SequenceRows(Tape& tape, const Var& x) : rows_(x), shape_(x.shape()) {
    if (shape_.rank() == 2) return;
    if (shape_.rank() != 3)
      fail(error_id::tensor_rank, "SequenceRows", "x", x.value().describe(),
           "[rows, C] or [B, T, C]");
    Context& context = tape.context();
    batch_ = x.sequences();
    const Sequences each = batch_.defined() ? batch_ : Sequences::uniform(context, shape_[0]);
    rows_ = tape.with_sequences(reshape(tape, x, Shape{shape_[0] * shape_[1], shape_[2]}),
                                each.lengthened(context, shape_[1]));
  }

  const Var& rows() const { return rows_; }
  bool dense() const { return shape_.rank() == 3; }
  // Gives [rows, D] the shape of x: [B, T, D] if x had three dimensions.
  Var back(Tape& tape, const Var& y) const {
    if (!dense()) return y;
    return tape.with_sequences(reshape(tape, y, Shape{shape_[0], shape_[1], y.shape().columns()}),
                               batch_);
  }

 private:
  Var rows_;
  Shape shape_;
  Sequences batch_{};
};

}  // namespace soma::nn
