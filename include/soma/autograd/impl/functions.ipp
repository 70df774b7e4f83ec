#pragma once
// The functions of functions.hpp.

#include <soma/autograd/functions.hpp>

#include <soma/autograd/recompute.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/ops/records.hpp>
#include <soma/ops/settings.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace SOMA_NAMESPACE {

SOMA_INLINE Var neg(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::negate), {}, {x});
}

SOMA_INLINE Var abs(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::absolute), {}, {x});
}

SOMA_INLINE Var square(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::square), {}, {x});
}

SOMA_INLINE Var sqrt(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::square_root), {}, {x});
}

SOMA_INLINE Var reciprocal(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::reciprocal), {}, {x});
}

SOMA_INLINE Var exp(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::exponential), {}, {x});
}

SOMA_INLINE Var log(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::logarithm), {}, {x});
}

SOMA_INLINE Var sin(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::sine), {}, {x});
}

SOMA_INLINE Var cos(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::cosine), {}, {x});
}

SOMA_INLINE Var relu(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::relu), {}, {x});
}

SOMA_INLINE Var gelu(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::gelu), {}, {x});
}

SOMA_INLINE Var gelu_tanh(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::gelu_tanh), {}, {x});
}

SOMA_INLINE Var tanh(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::tanh), {}, {x});
}

SOMA_INLINE Var sigmoid(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::sigmoid), {}, {x});
}

SOMA_INLINE Var silu(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::silu), {}, {x});
}

SOMA_INLINE Var softplus(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::softplus), {}, {x});
}

SOMA_INLINE Var gelu_sigmoid(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::gelu_sigmoid), {}, {x});
}

SOMA_INLINE Var gelu_clipped(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::gelu_clipped), {}, {x});
}

SOMA_INLINE Var mish(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::mish), {}, {x});
}

SOMA_INLINE Var leaky_relu(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::leaky_relu), {}, {x});
}

SOMA_INLINE Var relu6(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::relu6), {}, {x});
}

SOMA_INLINE Var relu_squared(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::relu_squared), {}, {x});
}

SOMA_INLINE Var laplace(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::laplace), {}, {x});
}

SOMA_INLINE Var add(Tape& tape, const Var& a, const Var& b) {
  return tape.apply(tape.operators().of(Binary::add), {}, {a, b});
}

SOMA_INLINE Var sub(Tape& tape, const Var& a, const Var& b) {
  return tape.apply(tape.operators().of(Binary::subtract), {}, {a, b});
}

SOMA_INLINE Var mul(Tape& tape, const Var& a, const Var& b) {
  return tape.apply(tape.operators().of(Binary::multiply), {}, {a, b});
}

SOMA_INLINE Var div(Tape& tape, const Var& a, const Var& b) {
  return tape.apply(tape.operators().of(Binary::divide), {}, {a, b});
}

SOMA_INLINE Var maximum(Tape& tape, const Var& a, const Var& b) {
  return tape.apply(tape.operators().of(Binary::maximum), {}, {a, b});
}

SOMA_INLINE Var minimum(Tape& tape, const Var& a, const Var& b) {
  return tape.apply(tape.operators().of(Binary::minimum), {}, {a, b});
}

SOMA_INLINE DropoutSetting dropout_setting(const Tape& tape, float probability,
                                           std::uint32_t stream) {
  if (!tape.options().training) return {};
  return {probability,
          {.seed = tape.options().seed, .stream = stream, .step = tape.options().step}};
}

SOMA_INLINE Var dropout(Tape& tape, const Var& x, float probability, std::uint32_t stream) {
  const DropoutSetting setting = dropout_setting(tape, probability, stream);
  if (setting.probability == 0) return x;
  const Shape& shape = x.shape();
  const bool batch_last =
      x.sequences().defined() && x.sequences().place().dimension + 1 == shape.rank();
  if (!batch_last) return tape.apply(*tape.operators().dropout, setting, {x});
  // Draws follow rows: each element becomes one.
  std::array<std::size_t, max_rank> sizes{};
  *std::copy(shape.begin(), shape.end(), sizes.begin()) = 1;
  const Shape rows(std::span<const std::size_t>(sizes.data(), shape.rank() + 1));
  const Var y = tape.apply(*tape.operators().dropout, setting, {reshape(tape, x, rows)});
  return tape.with_sequences(reshape(tape, y, shape), x.sequences());
}

SOMA_INLINE Var matmul(Tape& tape, const Var& a, const Var& b, const MatmulSetting& setting) {
  return tape.apply(*tape.operators().matmul, setting, {a, b});
}

SOMA_INLINE Var linear(Tape& tape, const Var& x, const Var& weight, const Var& bias,
                       const LinearSetting& setting, const Var& residual) {
  LinearSetting with = setting;
  with.packed = tape.options().packed;
  return tape.apply(*tape.operators().linear, with, {x, weight, bias, residual});
}

SOMA_INLINE Var conv2d(Tape& tape, const Var& x, const Var& weight, const Var& bias,
                       const ConvolutionSetting& setting) {
  return tape.apply(*tape.operators().convolution, setting, {x, weight, bias});
}

SOMA_INLINE Var max_pool2d(Tape& tape, const Var& x, const MaxPoolSetting& setting) {
  return tape.apply(*tape.operators().max_pool, setting, {x});
}

SOMA_INLINE Var attention(Tape& tape, const Var& qkv, const AttentionSetting& setting,
                          const Var& queries, const Var& mask) {
  return tape.apply(*tape.operators().attention, setting, {qkv, queries, mask});
}

SOMA_INLINE Var embedding(Tape& tape, const Var& table, const Var& ids,
                          const EmbeddingSetting& setting) {
  return tape.apply(*tape.operators().embedding, setting, {table, ids});
}

SOMA_INLINE Var layer_norm(Tape& tape, const Var& x, const Var& gamma, const Var& beta,
                           float epsilon) {
  return tape.apply(*tape.operators().norm, NormSetting{epsilon, false}, {x, gamma, beta});
}

SOMA_INLINE Var rms_norm(Tape& tape, const Var& x, const Var& gamma, float epsilon) {
  return tape.apply(*tape.operators().norm, NormSetting{epsilon, true}, {x, gamma});
}

SOMA_INLINE Var softmax(Tape& tape, const Var& x) {
  return tape.apply(*tape.operators().softmax, SoftmaxSetting{false}, {x});
}

SOMA_INLINE Var log_softmax(Tape& tape, const Var& x) {
  return tape.apply(*tape.operators().softmax, SoftmaxSetting{true}, {x});
}

SOMA_INLINE Var cross_entropy(Tape& tape, const Var& logits, const Var& labels,
                              const CrossEntropySetting& setting) {
  return tape.apply(*tape.operators().cross_entropy, setting, {logits, labels});
}

SOMA_INLINE Var mse_loss(Tape& tape, const Var& x, const Var& target, LossReduction reduction) {
  return tape.apply(*tape.operators().element_loss,
                    ElementLossSetting{ElementLoss::squared_error, reduction, 0}, {x, target});
}

SOMA_INLINE Var binary_cross_entropy_with_logits(Tape& tape, const Var& x, const Var& target,
                                                 LossReduction reduction) {
  return tape.apply(*tape.operators().element_loss,
                    ElementLossSetting{ElementLoss::binary_cross_entropy_logits, reduction, 0},
                    {x, target});
}

SOMA_INLINE Var weighted_binary_cross_entropy_with_logits(Tape& tape, const Var& x,
                                                          const Var& target,
                                                          const Var& positive_weight,
                                                          LossReduction reduction) {
  if (target.shape() != x.shape())
    fail(error_id::tensor_shape, "weighted_binary_cross_entropy_with_logits", "target",
         target.value().describe(), "the shape of x, " + x.value().describe());
  const auto wide = [&](const Var& given) {
    return given.value().dtype() == DType::fp32 ? given : cast(tape, given, DType::fp32);
  };
  const Var logits = wide(x), t = wide(target);
  const Var one = tape.constant(Tensor::full(tape.context(), Shape{1}, 1.0f));
  const Var positives =
      mul(tape, mul(tape, t, wide(positive_weight)), softplus(tape, neg(tape, logits)));
  const Var losses = add(tape, positives, mul(tape, sub(tape, one, t), softplus(tape, logits)));
  if (reduction == LossReduction::none) return losses;
  return reduction == LossReduction::mean ? mean(tape, losses) : sum(tape, losses);
}

SOMA_INLINE Var sum(Tape& tape, const Var& x, std::uint32_t dimensions) {
  return tape.apply(*tape.operators().reduce, ReduceSetting{dimensions, false}, {x});
}

SOMA_INLINE Var mean(Tape& tape, const Var& x, std::uint32_t dimensions) {
  return tape.apply(*tape.operators().reduce, ReduceSetting{dimensions, true}, {x});
}

SOMA_INLINE Var reshape(Tape& tape, const Var& x, const Shape& shape) {
  return tape.apply(*tape.operators().reshape, ReshapeSetting{shape}, {x});
}

SOMA_INLINE Var transpose(Tape& tape, const Var& x, std::size_t a, std::size_t b) {
  return tape.apply(*tape.operators().transpose, TransposeSetting{a, b}, {x});
}

SOMA_INLINE Var slice(Tape& tape, const Var& x, std::size_t dimension, std::size_t begin,
                      std::size_t end, std::size_t step) {
  return tape.apply(*tape.operators().slice, SliceSetting{dimension, begin, end, step}, {x});
}

SOMA_INLINE Var concatenate(Tape& tape, std::initializer_list<Var> parts, std::size_t dimension) {
  return tape.apply(*tape.operators().concatenate, dimension, parts);
}

SOMA_INLINE Var sequence_first(Tape& tape, const Var& x) {
  return tape.apply(*tape.operators().sequence_first, {}, {x});
}

SOMA_INLINE Var cast(Tape& tape, const Var& x, DType dtype, const Rounding& rounding,
                     const Draw& draw) {
  return tape.apply(*tape.operators().cast, CastSetting{dtype, rounding, draw}, {x});
}

}  // namespace SOMA_NAMESPACE
