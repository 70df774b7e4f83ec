#pragma once
// The functions of losses.hpp.

#include <soma/autograd/losses.hpp>

#include <soma/autograd/choosing.hpp>
#include <soma/autograd/functions.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/ops/loss/settings.hpp>
#include <soma/ops/records.hpp>
#include <soma/ops/settings.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

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

SOMA_INLINE Var head_loss(Tape& tape, const Var& x, const Var& weight, const Var& labels,
                          const CrossEntropySetting& setting, const Var& bias) {
  return tape.apply(*tape.operators().head_loss, setting, {x, weight, labels, bias});
}

SOMA_INLINE Var cosine_embedding_loss(Tape& tape, const Var& a, const Var& b, const Var& marks,
                                      float margin, LossReduction reduction) {
  return tape.apply(*tape.operators().cosine_loss, CosineLossSetting{margin, reduction, 0},
                    {a, b, marks});
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE Var in_fp32(Tape& tape, const Var& x) {
  return x.value().dtype() == DType::fp32 ? x : cast(tape, x, DType::fp32);
}

SOMA_INLINE Var reduced(Tape& tape, const Var& losses, LossReduction reduction) {
  if (reduction == LossReduction::none) return losses;
  return reduction == LossReduction::mean ? mean(tape, losses) : sum(tape, losses);
}

// 1 - x.
SOMA_INLINE Var rest_of(Tape& tape, const Var& x) {
  return sub(tape, tape.constant(Tensor::full(tape.context(), Shape{1}, 1.0f)), x);
}

SOMA_INLINE void check_same_shape(std::string_view operation, std::string_view argument,
                                  const Var& given, const Var& x) {
  if (given.shape() != x.shape())
    fail(error_id::tensor_shape, operation, argument, given.value().describe(),
         "the shape of the first argument, " + x.value().describe());
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE Var binary_cross_entropy(Tape& tape, const Var& p, const Var& target,
                                     LossReduction reduction) {
  detail::check_same_shape("binary_cross_entropy", "target", target, p);
  const Var own = detail::in_fp32(tape, p), t = detail::in_fp32(tape, target);
  const auto limited_log = [&](const Var& x) {
    return log(tape, clamp(tape, x, std::numeric_limits<float>::min(), 1));
  };
  const Var positives = mul(tape, t, limited_log(own));
  const Var negatives =
      mul(tape, detail::rest_of(tape, t), limited_log(detail::rest_of(tape, own)));
  return detail::reduced(tape, neg(tape, add(tape, positives, negatives)), reduction);
}

SOMA_INLINE Var soft_cross_entropy(Tape& tape, const Var& logits, const Var& shares,
                                   LossReduction reduction) {
  detail::check_same_shape("soft_cross_entropy", "shares", shares, logits);
  const Shape& shape = logits.shape();
  if (shape.rank() == 0)
    fail(error_id::tensor_rank, "soft_cross_entropy", "logits", logits.value().describe(),
         "[..., classes]");
  const Var products =
      mul(tape, detail::in_fp32(tape, shares), log_softmax(tape, detail::in_fp32(tape, logits)));
  const Var rows = neg(tape, sum(tape, products, std::uint32_t{1} << (shape.rank() - 1)));
  return detail::reduced(tape, rows, reduction);
}

}  // namespace SOMA_NAMESPACE
