#pragma once
// Matrix product with segments and epilogue as plain scalar code, to compare kernels with.

#include <soma/kernels/gemm/args.hpp>
#include <soma/kernels/reference/element.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <span>
#include <vector>

namespace SOMA_NAMESPACE::reference {

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

// The result of the bf16 tile instruction for a sum and at most sixteen pairs of products
// (simd/bf16_tiles-inl.hpp).
inline float add_tile_products(float sum, std::span<const float> a, std::span<const float> b) {
  const auto flushed = [](float x) {
    return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
  };
  float chains[2] = {0, 0};
  for (std::size_t i = 0; i < a.size(); ++i) {
    float& chain = chains[i % 2];
    chain = flushed(std::fma(flushed(a[i]), flushed(b[i]), chain));
  }
  return flushed(sum + flushed(chains[0] + chains[1]));
}

// Products of bf16 numbers by tiles: 32 after another.
struct TileSums {
  float operator()(const float* a, const float* b, std::size_t b_stride, std::size_t count) const {
    float sum = 0;
    for (std::size_t first = 0; first < count; first += 32) {
      std::vector<float> left, right;
      for (std::size_t l = first; l < first + 32 && l < count; ++l) {
        left.push_back(a[l]);
        right.push_back(b[l * b_stride]);
      }
      sum = add_tile_products(sum, left, right);
    }
    return sum;
  }
};

// Products of fp32 numbers by tiles: each is the sum of three bf16 numbers, and of 32 after another
// six products of those are added, the smallest first. The numbers of a pair are 16 apart.
struct SplitTileSums {
  // The upper half of the bits; the rest, rounded to nearest, ties away from zero; what is left.
  static std::array<float, 3> parts_of(float x) {
    const auto upper_half = [](float value, std::uint32_t more) {
      return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + more) & 0xFFFF0000u);
    };
    const float first = upper_half(x, 0), rest = x - first;
    const float second = upper_half(rest, 0x8000u);
    return {first, second, rest - second};
  }

  float operator()(const float* a, const float* b, std::size_t b_stride, std::size_t count) const {
    constexpr std::size_t order[6][2] = {{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}};
    float sum = 0;
    for (std::size_t first = 0; first < count; first += 32)
      for (const auto& [a_part, b_part] : order) {
        std::vector<float> left, right;
        for (std::size_t i = 0; i < 32; ++i) {
          const std::size_t l = first + i / 2 + (i % 2) * 16;
          left.push_back(l < count ? parts_of(a[l])[a_part] : 0);
          right.push_back(l < count ? parts_of(b[l * b_stride])[b_part] : 0);
        }
        sum = add_tile_products(sum, left, right);
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
  return unary(unary_of(function), x);
}

// The steps from a sum to an element of c. Unused terms are zero; `kept`, the factor of dropout, is
// 1 if unused.
template <class T>
struct EpilogueElement {
  T old = 0, bias = 0, kept = 1, residual = 0;
  Activation activation = Activation::none;
  // results
  T pre_activation = 0, value = 0;

  void apply(T sum) {
    pre_activation = sum + old;
    pre_activation = pre_activation + bias;
    const T active = activate(activation, pre_activation);
    // 0 whatever the value is. Volatile, so that product and sum are rounded apart.
    const volatile T dropped = kept == 0 ? T(0) : active * kept;
    value = dropped + residual;
  }
};

}  // namespace SOMA_NAMESPACE::reference
