#pragma once
// Initial values of parameters. Element i of a tensor, row-major, is a pure function of the draw
// and i.

#include <soma/kernels/random/random.hpp>
#include <soma/tensor/tensor.hpp>

#include <cmath>
#include <cstddef>
#include <span>

namespace soma::nn {

// Normally distributed numbers with mean 0.
inline Tensor normal(Context& context, const Shape& shape, float standard_deviation,
                     const Draw& draw) {
  Tensor tensor = Tensor::empty(context, shape);
  const std::span<float> values = tensor.mutable_span<float>();
  fill_normal(context, values, draw);
  const FloatEnvironment environment;
  for (float& value : values) value *= standard_deviation;
  return tensor;
}

// Uniform distribution between -bound and bound.
inline Tensor uniform(Context& context, const Shape& shape, float bound, const Draw& draw) {
  Tensor tensor = Tensor::empty(context, shape);
  const std::span<float> values = tensor.mutable_span<float>();
  fill_uniform(context, values, draw);
  const FloatEnvironment environment;
  for (float& value : values) value = std::fma(2 * bound, value, -bound);
  return tensor;
}

// The number of inputs and outputs of a unit, for a weight [out, in, ...].
struct Fans {
  std::size_t in, out;
};
inline Fans fans(const Shape& weight) {
  std::size_t field = 1;
  for (std::size_t i = 2; i < weight.rank(); ++i) field *= weight[i];
  return {weight[1] * field, weight[0] * field};
}

namespace detail {

// sqrt(numerator / denominator) in double, rounded once: IEEE operations, so the same everywhere.
inline float root_of_ratio(double numerator, std::size_t denominator) {
  return static_cast<float>(
      std::sqrt(numerator / static_cast<double>(denominator == 0 ? 1 : denominator)));
}

}  // namespace detail

// "Understanding the difficulty of training deep feedforward neural networks", Glorot and Bengio
// 2010: uniform, variance 2 / (in + out).
inline Tensor glorot_uniform(Context& context, const Shape& weight, const Draw& draw) {
  const auto [in, out] = fans(weight);
  return uniform(context, weight, detail::root_of_ratio(6, in + out), draw);
}
// "Delving Deep into Rectifiers", arXiv 1502.01852: variance 2 / in, for ReLU.
inline Tensor he_normal(Context& context, const Shape& weight, const Draw& draw) {
  return normal(context, weight, detail::root_of_ratio(2, fans(weight).in), draw);
}
inline Tensor he_uniform(Context& context, const Shape& weight, const Draw& draw) {
  return uniform(context, weight, detail::root_of_ratio(6, fans(weight).in), draw);
}
// "Efficient BackProp", LeCun et al. 1998: uniform, variance 1 / (3 in). The usual default of
// linear and convolution layers, and of their biases.
inline Tensor lecun_uniform(Context& context, const Shape& shape, std::size_t in,
                            const Draw& draw) {
  return uniform(context, shape, detail::root_of_ratio(1, in), draw);
}

}  // namespace soma::nn
