#pragma once
// SequenceRows: a batch of sequences as rows, from a ragged batch or from [B, T, C].

#include <soma/autograd/functions.hpp>

#include <cstddef>
#include <string>

namespace SOMA_NAMESPACE::nn {

class SequenceRows {
 public:
  // x is [rows, C], which stays as it is, or [B, T, C]: B sequences of T rows each. Errors
  // tensor.rank, operator.sequences (the batch is another dimension than the first),
  // ragged.ordinals (the first dimension of [B, T, C] has sequences of several rows).
  SequenceRows(Tape& tape, const Var& x);

  const Var& rows() const { return rows_; }
  bool dense() const;
  // Gives [rows, D] the shape of x: [B, T, D] if x had three dimensions.
  Var back(Tape& tape, const Var& y) const;

 private:
  Var rows_;
  Shape shape_;
  Sequences batch_{};
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/sequence_rows.ipp>
#endif
