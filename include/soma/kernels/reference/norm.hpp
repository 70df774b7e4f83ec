#pragma once
// Layer norm, RMS norm and softmax of one row as plain scalar code, to compare kernels with.

#include <soma/base/config.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace SOMA_NAMESPACE::reference {

template <class T>
struct Moments {
  T mean = 0, rstd = 0;
};

template <class T>
Moments<T> moments(std::span<const T> x, bool rms, T epsilon) {
  const T count = static_cast<T>(x.size());
  Moments<T> result;
  if (!rms) {
    for (const T value : x) result.mean += value;
    result.mean /= count;
  }
  T squares = 0;
  for (const T value : x) squares += (value - result.mean) * (value - result.mean);
  result.rstd = 1 / std::sqrt(squares / count + epsilon);
  return result;
}

// gamma and beta may be empty: ones and zeros.
template <class T>
void norm(std::span<const T> x, const Moments<T>& m, std::span<const T> gamma,
          std::span<const T> beta, std::span<T> y) {
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = (x[i] - m.mean) * m.rstd * (gamma.empty() ? T(1) : gamma[i]) +
           (beta.empty() ? T(0) : beta[i]);
}

template <class T>
void norm_backward(std::span<const T> x, const Moments<T>& m, bool rms, std::span<const T> gamma,
                   std::span<const T> dy, std::span<T> dx) {
  const T count = static_cast<T>(x.size());
  T mean_g = 0, mean_g_xhat = 0;
  const auto g = [&](std::size_t i) { return dy[i] * (gamma.empty() ? T(1) : gamma[i]); };
  const auto xhat = [&](std::size_t i) { return (x[i] - m.mean) * m.rstd; };
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_g += rms ? T(0) : g(i) / count;
    mean_g_xhat += g(i) * xhat(i) / count;
  }
  for (std::size_t i = 0; i < x.size(); ++i)
    dx[i] = m.rstd * (g(i) - mean_g - xhat(i) * mean_g_xhat);
}

template <class T>
T log_sum_exp(std::span<const T> x) {
  const T largest = *std::max_element(x.begin(), x.end());
  T sum = 0;
  for (const T value : x) sum += std::exp(value - largest);
  return largest + std::log(sum);
}

template <class T>
void softmax(std::span<const T> x, bool logarithm, std::span<T> y) {
  const T rest = log_sum_exp(x);
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = logarithm ? x[i] - rest : std::exp(x[i] - rest);
}

template <class T>
void softmax_backward(std::span<const T> y, std::span<const T> dy, bool logarithm,
                      std::span<T> dx) {
  T sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += logarithm ? dy[i] : y[i] * dy[i];
  for (std::size_t i = 0; i < y.size(); ++i)
    dx[i] = logarithm ? dy[i] - std::exp(y[i]) * sum : y[i] * (dy[i] - sum);
}

}  // namespace SOMA_NAMESPACE::reference
