#pragma once
// Losses as plain scalar code, to compare kernels with.

#include <soma/kernels/loss/args.hpp>
#include <soma/kernels/reference/norm.hpp>

#include <cmath>
#include <cstddef>
#include <span>

namespace SOMA_NAMESPACE::reference {

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
T element_loss(ElementLoss loss, T x, T target, T parameter = 1) {
  const T size = std::fabs(x - target);
  const T huber = size > parameter ? parameter * (size - parameter / 2) : size * size / 2;
  switch (loss) {
    case ElementLoss::squared_error:
      return (x - target) * (x - target);
    case ElementLoss::absolute_error:
      return size;
    case ElementLoss::huber:
      return huber;
    case ElementLoss::smooth_absolute:
      return huber / parameter;
    case ElementLoss::hinge:
      return parameter - target * x < 0 ? T(0) : parameter - target * x;
    case ElementLoss::divergence:
      return target == 0 ? T(0) : target * (std::log(target) - x);
    case ElementLoss::binary_cross_entropy_logits:
      break;
  }
  if (std::isinf(x)) {  // its limit
    const T other = x > 0 ? 1 - target : target;
    return other == 0 ? T(0) : std::fabs(x) * other;
  }
  return (x > 0 ? x : 0) - x * target + std::log1p(std::exp(-std::fabs(x)));
}

template <class T>
T element_loss_derivative(ElementLoss loss, T x, T target, T parameter = 1) {
  const T difference = x - target;
  const T within = difference > parameter    ? parameter
                   : difference < -parameter ? -parameter
                                             : difference;
  switch (loss) {
    case ElementLoss::squared_error:
      return 2 * difference;
    case ElementLoss::absolute_error:
      return difference > 0 ? T(1) : difference < 0 ? T(-1) : difference;
    case ElementLoss::huber:
      return within;
    case ElementLoss::smooth_absolute:
      return within / parameter;
    case ElementLoss::hinge:
      return parameter - target * x <= 0 ? T(0) : -target;
    case ElementLoss::divergence:
      return -target;
    case ElementLoss::binary_cross_entropy_logits:
      break;
  }
  const T tail = 1 / (1 + std::exp(std::fabs(x)));
  return x > 0 ? (1 - target) - tail : tail - target;
}

}  // namespace SOMA_NAMESPACE::reference
