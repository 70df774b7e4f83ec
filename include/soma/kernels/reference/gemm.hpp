#pragma once
// Matrix product with segments and eviction as plain scalar code, to compare kernels with.

#include <soma/kernels/gemm_args.hpp>

#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>
#include <vector>

namespace soma::reference {

// Partial sums meet in pairs, then the pairs, until one is left.
template <class T>
T meet_in_pairs(std::vector<T> sums) {
  for (; sums.size() > 1; sums.resize(sums.size() / 2))
    for (std::size_t i = 0; i < sums.size() / 2; ++i) sums[i] = sums[2 * i] + sums[2 * i + 1];
  return sums[0];
}

// a is m x k, b is k x n and c m x n, row-major. Segment s reaches from bounds[s] to bounds[s + 1].
template <class T>
void multiply(std::size_t m, std::size_t n, std::size_t k, const T* a, const T* b,
              std::span<const std::size_t> bounds, T* c) {
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      std::vector<T> sums;
      for (std::size_t s = 0; s + 1 < bounds.size(); ++s) {
        T sum = 0;
        for (std::size_t l = bounds[s]; l < bounds[s + 1]; ++l)
          sum = std::fma(a[i * k + l], b[l * n + j], sum);
        sums.push_back(sum);
      }
      c[i * n + j] = meet_in_pairs(sums);
    }
}

template <class T>
T activate(Activation function, T x) {
  switch (function) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? T(0) : x;
    case Activation::gelu:
      return x / 2 * std::erfc(-x / std::numbers::sqrt2_v<T>);
    case Activation::gelu_tanh:
      return x / 2 *
             (1 + std::tanh(std::sqrt(2 / std::numbers::pi_v<T>) * (x + T(0.044715) * x * x * x)));
    case Activation::tanh:
      return std::tanh(x);
  }
  return x;
}

// One element on its way out. What is not wanted is zero, or 1 for `kept`, which dropout multiplies
// by.
template <class T>
struct EvictedElement {
  T old = 0, bias = 0, kept = 1, residual = 0;
  Activation activation = Activation::none;
  // results
  T pre_activation = 0, value = 0;

  void evict(T sum) {
    pre_activation = sum + old;
    pre_activation = pre_activation + bias;
    const T active = activate(activation, pre_activation);
    // 0 whatever the value is. Volatile, so that product and sum are rounded apart.
    const volatile T dropped = kept == 0 ? T(0) : active * kept;
    value = dropped + residual;
  }
};

}  // namespace soma::reference
