#pragma once
// Losses beyond those of autograd/functions.hpp. Each loss is fp32: the mean over elements or rows,
// their sum, or all values (LossReduction). Targets are constants. Errors tensor.shape (a target of
// another shape than stated here; where none is stated, that of x), tensor.rank, tensor.dtype,
// operator.value (a label that is no class, a setting out of its range).

#include <soma/autograd/tape.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/settings.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

namespace detail {

Var element_loss(Tape& tape, ElementLoss loss, const Var& x, const Var& target,
                 LossReduction reduction, float parameter = 1);

}  // namespace detail

// |x - target|. Infinite if one of the two is infinite; NaN, as in IEEE 754, if both are the same
// infinity. The gradient is 0 where x equals the target.
Var l1_loss(Tape& tape, const Var& x, const Var& target,
            LossReduction reduction = LossReduction::mean);
// With d = |x - target|: d^2 / 2 up to delta, delta (d - delta / 2) beyond. Huber 1964.
Var huber_loss(Tape& tape, const Var& x, const Var& target, float delta = 1,
               LossReduction reduction = LossReduction::mean);
// huber_loss with delta = beta, divided by beta; l1_loss for a beta of 0. Girshick 2015 (Fast
// R-CNN).
Var smooth_l1_loss(Tape& tape, const Var& x, const Var& target, float beta = 1,
                   LossReduction reduction = LossReduction::mean);
// max(0, margin - target x) with targets of 1 and -1. For an infinite x: 0 on the target's side,
// infinite on the other.
Var hinge_loss(Tape& tape, const Var& x, const Var& target, float margin = 1,
               LossReduction reduction = LossReduction::mean);
// The divergence of Kullback and Leibler: target (log target - x) of log probabilities x and
// probabilities `target`, 0 where the target is 0, and infinite where x is -infinity and the target
// is not 0. `mean` is over all elements, as in PyTorch; kl_div_batch_mean() is the divergence of a
// row.
Var kl_div(Tape& tape, const Var& x, const Var& target,
           LossReduction reduction = LossReduction::mean);
// The sum over x [N, ...], divided by N.
Var kl_div_batch_mean(Tape& tape, const Var& x, const Var& target);
// -x[label] of log probabilities [..., classes] and labels [...] (int32 or int64). Rows whose label
// is setting.ignore_index do not count. cross_entropy() combines this loss with log_softmax().
Var nll_loss(Tape& tape, const Var& x, const Var& labels, const CrossEntropySetting& setting = {});
// cross_entropy() of the logits x weight^T + bias for heads of very many classes: the logits exist
// for 4,096 classes at a time. x [rows, C], weight [V, C], labels [rows] (int32 or int64), bias [V]
// or left out. Rows without a label (setting.ignore_index) cost nothing. Backward multiplies once
// more than with stored logits (ops/loss/head_loss.hpp).
Var head_loss(Tape& tape, const Var& x, const Var& weight, const Var& labels,
              const CrossEntropySetting& setting = {}, const Var& bias = {});
// -(target log p + (1 - target) log(1 - p)) of probabilities p. Logarithms end at -87.3, that of
// the smallest normal number, and have no gradient there. Logits are more exact.
Var binary_cross_entropy(Tape& tape, const Var& p, const Var& target,
                         LossReduction reduction = LossReduction::mean);
// Cross entropy of logits [..., classes] with shares of classes [..., classes] as targets (mixup,
// smoothed or distilled labels): -sum of share log_softmax of each row.
Var soft_cross_entropy(Tape& tape, const Var& logits, const Var& shares,
                       LossReduction reduction = LossReduction::mean);
// For rows a, b [N, C] and marks [N] of a floating type: 1 - cos(a, b) for a mark of 1, max(0,
// cos(a, b) - margin) for a mark of -1, 0 for others.
Var cosine_embedding_loss(Tape& tape, const Var& a, const Var& b, const Var& marks,
                          float margin = 0, LossReduction reduction = LossReduction::mean);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/autograd/impl/losses.ipp>
#endif
