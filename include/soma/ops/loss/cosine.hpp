#pragma once
// The cosine loss of pairs of rows a, b [N, C] with marks [N]: 1 - cos for a mark of 1, max(0, cos
// - margin) for a mark of -1, else 0, where
//     cos = a.b / sqrt((a.a + e) (b.b + e)), e = 1e-12,
// so that the cosine with a row of zeros is 0. The same as torch.nn.CosineEmbeddingLoss. Sums are
// in double.

#include <soma/numeric/portable_math.hpp>
#include <soma/ops/loss/loss.hpp>
#include <soma/ops/loss/settings.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/run.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

inline constexpr double cosine_floor = 1e-12;

inline void cosine_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<CosineLossSetting>();
  const Tensor &a = call.inputs[0], &b = call.inputs[1], &marks = call.inputs[2];
  check_rank("cosine_loss", "a", a, 2);
  check_floating("cosine_loss", "a", a);
  check_floating("cosine_loss", "b", b);
  check_shape("cosine_loss", "b", b, a.shape());
  check_floating("cosine_loss", "marks", marks);
  check_shape("cosine_loss", "marks", marks, Shape{a.size(0)});
  call.outputs[0] = {setting.reduction == LossReduction::none ? Shape{a.size(0)} : Shape{},
                     DType::fp32};
}

// The cosine of one pair of rows. Products of two floats are exact in double, so a sum has the same
// bits with fused multiply-adds and without.
struct CosineRow {
  double squares_a = cosine_floor, squares_b = cosine_floor, cosine = 0, inverse = 0;

  CosineRow(const float* a, const float* b, std::size_t count) {
    double product = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const auto x = static_cast<double>(a[i]), y = static_cast<double>(b[i]);
      product += x * y;
      squares_a += x * x;
      squares_b += y * y;
    }
    inverse = 1 / std::sqrt(rounded(squares_a * squares_b));
    cosine = rounded(product * inverse);
  }
  double loss(float mark, double margin) const {
    if (mark == 1) return 1 - cosine;
    return mark == -1 && !(cosine - margin <= 0) ? cosine - margin : 0;
  }
  // d loss / d cos; 0 if the cosine equals the margin.
  double slope(float mark, double margin) const {
    if (mark == 1) return -1;
    return mark == -1 && !(cosine - margin <= 0) ? 1 : 0;
  }
};

inline void cosine_plain(const OperatorCall& call) {
  const auto& setting = call.attributes.as<CosineLossSetting>();
  const std::size_t rows = call.inputs[0].size(0), columns = call.inputs[0].size(1);
  const bool each = setting.reduction == LossReduction::none;
  const Tensor losses = each ? call.outputs[0] : Tensor::empty(call.context, Shape{rows});
  float* loss = losses.mutable_data<float>();
  const float *a = call.inputs[0].data<float>(), *b = call.inputs[1].data<float>();
  const float* marks = call.inputs[2].data<float>();
  for_ranges(call.context, rows, columns * 4, [&](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      loss[row] = static_cast<float>(CosineRow(a + row * columns, b + row * columns, columns)
                                         .loss(marks[row], static_cast<double>(setting.margin)));
  });
  if (!each)
    *call.outputs[0].mutable_data<float>() =
        ordered_sum(call.context, losses, Shape{rows}, call.sequences) /
        loss_denominator(setting.reduction, setting.denominator, rows);
}
inline void cosine_host(const OperatorCall& call) { with_plain_tensors(call, 0, cosine_plain); }

// d cos / d a = b / sqrt(...) - cos a / (a.a + e), and the same for b.
inline void cosine_gradient_plain(const GradientCall& call) {
  const auto& setting = call.attributes.as<CosineLossSetting>();
  if (call.wanted[2])
    fail(error_id::not_differentiable, "cosine_loss", "marks", "a variable with a gradient",
         "a constant (Tape::detach)");
  const std::size_t rows = call.inputs[0].size(0), columns = call.inputs[0].size(1);
  const bool each = setting.reduction == LossReduction::none;
  const Tensor dloss = contiguous(call.context, call.output_gradients[0]);
  const float all =
      each ? 0
           : dloss.item<float>() / loss_denominator(setting.reduction, setting.denominator, rows);
  const float* sides[] = {call.inputs[0].data<float>(), call.inputs[1].data<float>()};
  const float* marks = call.inputs[2].data<float>();
  for (std::size_t side = 0; side < 2; ++side) {
    if (!call.wanted[side]) continue;
    const Tensor gradient = Tensor::empty(call.context, call.inputs[0].shape());
    float* to = gradient.mutable_data<float>();
    for_ranges(call.context, rows, columns * 8, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        const float *own = sides[side] + row * columns, *other = sides[1 - side] + row * columns;
        const CosineRow pair(own, other, columns);
        const double slope = pair.slope(marks[row], static_cast<double>(setting.margin));
        const double factor =
            rounded(slope * static_cast<double>(each ? dloss.data<float>()[row] : all));
        const double with_other = rounded(factor * pair.inverse);
        const double with_own = rounded(factor * pair.cosine) / pair.squares_a;
        for (std::size_t i = 0; i < columns; ++i)
          to[row * columns + i] =
              static_cast<float>(rounded(with_other * static_cast<double>(other[i])) -
                                 rounded(with_own * static_cast<double>(own[i])));
      }
    });
    call.input_gradients[side].values = gradient;
  }
}
inline void cosine_gradient(const GradientCall& call) {
  with_plain_tensors(call, cosine_gradient_plain);
}

}  // namespace detail

namespace ops {

inline constexpr Operator cosine_loss{.name = "cosine_loss",
                                      .min_inputs = 3,
                                      .max_inputs = 3,
                                      .keeps_inputs = 7,
                                      .shape = &detail::cosine_shape,
                                      .host = &detail::cosine_host,
                                      .gradient = &detail::cosine_gradient,
                                      .wide_gradients = true,
                                      .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
