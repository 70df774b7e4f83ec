#pragma once
// Losses beside those of autograd/functions.hpp. Each gives fp32: the mean of what it has for each
// element or row, their sum, or all of them (LossReduction). Targets are constants.

#include <soma/autograd/tape.hpp>
#include <soma/ops/basic.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/settings.hpp>

#include <cstddef>

namespace soma {

namespace detail {

inline Var element_loss(Tape& tape, ElementLoss loss, const Var& x, const Var& target,
                        LossReduction reduction, float parameter = 1) {
  return tape.apply(*tape.operators().element_loss,
                    ElementLossSetting{loss, reduction, 0, parameter}, {x, target});
}

}  // namespace detail

// |x - target|. Infinite against a finite target; NaN, as in IEEE 754, where both are the same
// infinity. The gradient is 0 where x is the target.
inline Var l1_loss(Tape& tape, const Var& x, const Var& target,
                   LossReduction reduction = LossReduction::mean) {
  return detail::element_loss(tape, ElementLoss::absolute_error, x, target, reduction);
}
// With d = |x - target|: d^2 / 2 up to delta, delta (d - delta / 2) beyond. Huber 1964.
inline Var huber_loss(Tape& tape, const Var& x, const Var& target, float delta = 1,
                      LossReduction reduction = LossReduction::mean) {
  return detail::element_loss(tape, ElementLoss::huber, x, target, reduction, delta);
}
// huber_loss with delta = beta, over beta; l1_loss for a beta of 0. Girshick 2015 (Fast R-CNN).
inline Var smooth_l1_loss(Tape& tape, const Var& x, const Var& target, float beta = 1,
                          LossReduction reduction = LossReduction::mean) {
  return beta == 0
             ? l1_loss(tape, x, target, reduction)
             : detail::element_loss(tape, ElementLoss::smooth_absolute, x, target, reduction, beta);
}
// max(0, margin - target x) with targets of 1 and -1. 0 for an x that is infinite on the target's
// side, infinite on the other.
inline Var hinge_loss(Tape& tape, const Var& x, const Var& target, float margin = 1,
                      LossReduction reduction = LossReduction::mean) {
  return detail::element_loss(tape, ElementLoss::hinge, x, target, reduction, margin);
}
// The divergence of Kullback and Leibler: target (log target - x) of log probabilities x and
// probabilities `target`, 0 where the target is 0, and infinite where it is not and x is -infinity.
// `mean` is over all elements, as PyTorch's; kl_div_batch_mean() is the divergence of a row.
inline Var kl_div(Tape& tape, const Var& x, const Var& target,
                  LossReduction reduction = LossReduction::mean) {
  return detail::element_loss(tape, ElementLoss::divergence, x, target, reduction);
}
// The sum over the rows of x [N, ...], over N.
inline Var kl_div_batch_mean(Tape& tape, const Var& x, const Var& target) {
  const double rows = x.shape().rank() == 0 ? 1 : static_cast<double>(x.shape()[0]);
  return tape.apply(*tape.operators().element_loss,
                    ElementLossSetting{ElementLoss::divergence, LossReduction::mean, rows, 1},
                    {x, target});
}
// -x[label] of log probabilities [..., classes] and labels [...] (int32 or int64). Rows whose label
// is setting.ignore_index do not count. cross_entropy() is this of log_softmax(), at once.
inline Var nll_loss(Tape& tape, const Var& x, const Var& labels,
                    const CrossEntropySetting& setting = {}) {
  return tape.apply(*tape.operators().basic->nll_loss, setting, {x, labels});
}
// Of rows a, b [N, C] and marks [N] of a floating type: 1 - cos(a, b) for a mark of 1,
// max(0, cos(a, b) - margin) for -1.
inline Var cosine_embedding_loss(Tape& tape, const Var& a, const Var& b, const Var& marks,
                                 float margin = 0, LossReduction reduction = LossReduction::mean) {
  return tape.apply(*tape.operators().basic->cosine_loss, CosineLossSetting{margin, reduction, 0},
                    {a, b, marks});
}

}  // namespace soma
