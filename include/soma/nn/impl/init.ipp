#pragma once
// The functions of init.hpp.

#include <soma/nn/init.hpp>

#include <soma/kernels/random/random.hpp>
#include <soma/numeric/fused.hpp>
#include <soma/tensor/tensor.hpp>

#include <cmath>
#include <cstddef>
#include <span>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE Tensor normal(Context& context, const Shape& shape, float standard_deviation,
                          const Draw& draw) {
  Tensor tensor = Tensor::empty(context, shape);
  const std::span<float> values = tensor.mutable_span<float>();
  fill_normal(context, values, draw);
  const FloatEnvironment environment;
  for (float& value : values) value *= standard_deviation;
  return tensor;
}

SOMA_INLINE Tensor uniform(Context& context, const Shape& shape, float bound, const Draw& draw) {
  Tensor tensor = Tensor::empty(context, shape);
  const std::span<float> values = tensor.mutable_span<float>();
  fill_uniform(context, values, draw);
  const FloatEnvironment environment;
  for (float& value : values) value = fused_multiply_add(2 * bound, value, -bound);
  return tensor;
}

SOMA_INLINE Fans fans(const Shape& weight) {
  std::size_t field = 1;
  for (std::size_t i = 2; i < weight.rank(); ++i) field *= weight[i];
  return {weight[1] * field, weight[0] * field};
}

}  // namespace SOMA_NAMESPACE::nn

namespace SOMA_NAMESPACE::nn::detail {

SOMA_INLINE float root_of_ratio(double numerator, std::size_t denominator) {
  return static_cast<float>(
      std::sqrt(numerator / static_cast<double>(denominator == 0 ? 1 : denominator)));
}

}  // namespace SOMA_NAMESPACE::nn::detail

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE Tensor glorot_uniform(Context& context, const Shape& weight, const Draw& draw) {
  const auto [in, out] = fans(weight);
  return uniform(context, weight, detail::root_of_ratio(6, in + out), draw);
}

SOMA_INLINE Tensor he_normal(Context& context, const Shape& weight, const Draw& draw) {
  return normal(context, weight, detail::root_of_ratio(2, fans(weight).in), draw);
}

SOMA_INLINE Tensor he_uniform(Context& context, const Shape& weight, const Draw& draw) {
  return uniform(context, weight, detail::root_of_ratio(6, fans(weight).in), draw);
}

SOMA_INLINE Tensor lecun_uniform(Context& context, const Shape& shape, std::size_t in,
                                 const Draw& draw) {
  return uniform(context, shape, detail::root_of_ratio(1, in), draw);
}

}  // namespace SOMA_NAMESPACE::nn
