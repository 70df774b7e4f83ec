#pragma once
// The loss of connectionist temporal classification.

#include <soma/autograd/tape.hpp>
#include <soma/ops/settings.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

struct CtcOptions {
  std::size_t blank = 0;  // the class that stands for no label
  LossReduction reduction = LossReduction::mean;
  bool zero_infinity = false;  // true: an infinite loss counts as 0
};

// For log probabilities [rows, classes] whose rows form sequences, and labels (int32 or int64) that
// form as many sequences, without blanks; an empty one is allowed:
//
//   const Var labels = tape.with_sequences(tape.constant(ids), Sequences(context, begins));
//   const Var loss = ctc_loss(tape, log_softmax(tape, logits), labels);
//
// `none`: the loss of each sequence. `mean`: each divided by the number of its labels (at least 1),
// then the mean over sequences, as in PyTorch. A sequence with too few rows for its labels has an
// infinite loss, or 0 with `zero_infinity`, and no gradient. Memory: as much again as the log
// probabilities. Errors operator.sequences, and those of ops/loss/ctc.hpp.
Var ctc_loss(Tape& tape, const Var& x, const Var& labels, const CtcOptions& options = {});

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/autograd/impl/ctc.ipp>
#endif
