#pragma once
// The functions of losses.hpp.

#include <soma/autograd/losses.hpp>

#include <soma/autograd/tape.hpp>
#include <soma/ops/loss/settings.hpp>
#include <soma/ops/records.hpp>
#include <soma/ops/settings.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE Var element_loss(Tape& tape, ElementLoss loss, const Var& x, const Var& target,
                             LossReduction reduction, float parameter) {
  return tape.apply(*tape.operators().element_loss,
                    ElementLossSetting{loss, reduction, 0, parameter}, {x, target});
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE Var l1_loss(Tape& tape, const Var& x, const Var& target, LossReduction reduction) {
  return detail::element_loss(tape, ElementLoss::absolute_error, x, target, reduction);
}

SOMA_INLINE Var huber_loss(Tape& tape, const Var& x, const Var& target, float delta,
                           LossReduction reduction) {
  return detail::element_loss(tape, ElementLoss::huber, x, target, reduction, delta);
}

SOMA_INLINE Var smooth_l1_loss(Tape& tape, const Var& x, const Var& target, float beta,
                               LossReduction reduction) {
  return beta == 0
             ? l1_loss(tape, x, target, reduction)
             : detail::element_loss(tape, ElementLoss::smooth_absolute, x, target, reduction, beta);
}

SOMA_INLINE Var hinge_loss(Tape& tape, const Var& x, const Var& target, float margin,
                           LossReduction reduction) {
  return detail::element_loss(tape, ElementLoss::hinge, x, target, reduction, margin);
}

SOMA_INLINE Var kl_div(Tape& tape, const Var& x, const Var& target, LossReduction reduction) {
  return detail::element_loss(tape, ElementLoss::divergence, x, target, reduction);
}

SOMA_INLINE Var kl_div_batch_mean(Tape& tape, const Var& x, const Var& target) {
  const double rows = x.shape().rank() == 0 ? 1 : static_cast<double>(x.shape()[0]);
  return tape.apply(*tape.operators().element_loss,
                    ElementLossSetting{ElementLoss::divergence, LossReduction::mean, rows, 1},
                    {x, target});
}

SOMA_INLINE Var nll_loss(Tape& tape, const Var& x, const Var& labels,
                         const CrossEntropySetting& setting) {
  return tape.apply(*tape.operators().nll_loss, setting, {x, labels});
}

SOMA_INLINE Var cosine_embedding_loss(Tape& tape, const Var& a, const Var& b, const Var& marks,
                                      float margin, LossReduction reduction) {
  return tape.apply(*tape.operators().cosine_loss, CosineLossSetting{margin, reduction, 0},
                    {a, b, marks});
}

}  // namespace SOMA_NAMESPACE
