#pragma once
// Losses as plain scalar code, to compare kernels with.

#include <soma/kernels/loss/args.hpp>
#include <soma/kernels/reference/norm.hpp>

#include <cmath>
#include <cstddef>
#include <span>

namespace soma::reference {

template <class T>
T cross_entropy(std::span<const T> x, std::size_t label, T smoothing) {
  const T rest = log_sum_exp(x);
  T mean = 0;
  for (const T value : x) mean += value / static_cast<T>(x.size());
  const T from_label = rest - x[label];
  return smoothing == 0 ? from_label : (1 - smoothing) * from_label + smoothing * (rest - mean);
}

template <class T>
void cross_entropy_backward(std::span<const T> x, std::size_t label, T smoothing, T factor,
                            std::span<T> dx) {
  const T rest = log_sum_exp(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const T target = (i == label ? 1 - smoothing : T(0)) + smoothing / static_cast<T>(x.size());
    dx[i] = factor * (std::exp(x[i] - rest) - target);
  }
}

template <class T>
T element_loss(ElementLoss loss, T x, T target) {
  if (loss == ElementLoss::squared_error) return (x - target) * (x - target);
  if (std::isinf(x)) {  // its limit
    const T other = x > 0 ? 1 - target : target;
    return other == 0 ? T(0) : std::fabs(x) * other;
  }
  return (x > 0 ? x : 0) - x * target + std::log1p(std::exp(-std::fabs(x)));
}

template <class T>
T element_loss_derivative(ElementLoss loss, T x, T target) {
  if (loss == ElementLoss::squared_error) return 2 * (x - target);
  const T tail = 1 / (1 + std::exp(std::fabs(x)));
  return x > 0 ? (1 - target) - tail : tail - target;
}

}  // namespace soma::reference
