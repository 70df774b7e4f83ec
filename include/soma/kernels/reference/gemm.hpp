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

// The products of a segment, one after another.
template <class T>
struct FusedChain {
  T operator()(const T* a, const T* b, std::size_t b_stride, std::size_t count) const {
    T sum = 0;
    for (std::size_t l = 0; l < count; ++l) sum = std::fma(a[l], b[l * b_stride], sum);
    return sum;
  }
};

// As the bf16 tile instruction has it (simd/bf16_tiles-inl.hpp).
struct TileSums {
  float operator()(const float* a, const float* b, std::size_t b_stride, std::size_t count) const {
    const auto flushed = [](float x) {
      return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
    };
    float sum = 0;
    for (std::size_t first = 0; first < count; first += 32) {
      float chains[2] = {0, 0};
      for (std::size_t l = first; l < first + 32 && l < count; ++l) {
        float& chain = chains[(l - first) % 2];
        chain = flushed(std::fma(flushed(a[l]), flushed(b[l * b_stride]), chain));
      }
      sum = flushed(sum + flushed(chains[0] + chains[1]));
    }
    return sum;
  }
};

// a is m x k, b is k x n and c m x n, row-major. Segment s reaches from bounds[s] to bounds[s + 1].
template <class T, class Sum = FusedChain<T>>
void multiply(std::size_t m, std::size_t n, std::size_t k, const T* a, const T* b,
              std::span<const std::size_t> bounds, T* c, const Sum& sum = {}) {
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      std::vector<T> sums;
      for (std::size_t s = 0; s + 1 < bounds.size(); ++s)
        sums.push_back(
            sum(a + i * k + bounds[s], b + bounds[s] * n + j, n, bounds[s + 1] - bounds[s]));
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
