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
// The same variance, normally distributed.
Tensor glorot_normal(Context& context, const Shape& weight, const Draw& draw);
// "Delving Deep into Rectifiers", arXiv 1502.01852: variance 2 / in, for ReLU.
Tensor he_normal(Context& context, const Shape& weight, const Draw& draw);
Tensor he_uniform(Context& context, const Shape& weight, const Draw& draw);
// "Efficient BackProp", LeCun et al. 1998: uniform, variance 1 / (3 in). The usual default of
// linear and convolution layers, and of their biases.
Tensor lecun_uniform(Context& context, const Shape& shape, std::size_t in, const Draw& draw);

// Normally distributed numbers with mean 0 before they are cut off: none is farther from 0 than
// `bound` standard deviations (2: the usual choice of initial values). An element's number is drawn
// again until it is within. Error operator.value: a bound below 0.1.
Tensor truncated_normal(Context& context, const Shape& shape, float standard_deviation,
                        const Draw& draw, float bound = 2);
// A matrix [rows, the rest] with orthonormal rows, or columns if there are more rows, times `gain`
// (arXiv 1312.6120): uniformly distributed over all of them, by Householder's reflections of a
// normally distributed matrix, in double. On one thread: m n min(m, n) multiply-adds, twice. Error
// tensor.rank.
Tensor orthogonal(Context& context, const Shape& weight, const Draw& draw, float gain = 1);

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/init.ipp>
#endif
