#pragma once
// Initial values of parameters. Element i of a tensor, row-major, is a pure function of the draw
// and i.

#include <soma/kernels/random/random.hpp>
#include <soma/tensor/tensor.hpp>

#include <cmath>
#include <cstddef>
#include <span>

namespace SOMA_NAMESPACE::nn {

// Normally distributed numbers with mean 0.
Tensor normal(Context& context, const Shape& shape, float standard_deviation, const Draw& draw);

// Uniform distribution between -bound and bound.
Tensor uniform(Context& context, const Shape& shape, float bound, const Draw& draw);

// The number of inputs and outputs of a unit, for a weight [out, in, ...].
struct Fans {
  std::size_t in, out;
};
Fans fans(const Shape& weight);

namespace detail {

// sqrt(numerator / denominator) in double, rounded once: IEEE operations, so the same everywhere.
float root_of_ratio(double numerator, std::size_t denominator);

}  // namespace detail

// "Understanding the difficulty of training deep feedforward neural networks", Glorot and Bengio
// 2010: uniform, variance 2 / (in + out).
Tensor glorot_uniform(Context& context, const Shape& weight, const Draw& draw);
// "Delving Deep into Rectifiers", arXiv 1502.01852: variance 2 / in, for ReLU.
Tensor he_normal(Context& context, const Shape& weight, const Draw& draw);
Tensor he_uniform(Context& context, const Shape& weight, const Draw& draw);
// "Efficient BackProp", LeCun et al. 1998: uniform, variance 1 / (3 in). The usual default of
// linear and convolution layers, and of their biases.
Tensor lecun_uniform(Context& context, const Shape& shape, std::size_t in, const Draw& draw);

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/init.ipp>
#endif
