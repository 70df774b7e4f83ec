#pragma once
// inspect(): the effect of a format on numbers: the share that underflows, the share that
// saturates, and the error of the others. For any tensor: ops/product/inspect.hpp.

#include <soma/numeric/codec.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace SOMA_NAMESPACE::numeric {

// Counts of elements, and sums over the finite elements. Two inspections can be added.
struct Inspection {
  std::uint64_t count = 0, zeros = 0, infinities = 0, nans = 0;
  std::uint64_t exact = 0;           // finite, unchanged; zeros included
  std::uint64_t underflow = 0;       // not zero, became zero
  std::uint64_t subnormal = 0;       // became a subnormal number of the format, not zero
  std::uint64_t saturated = 0;       // finite, became the largest number, infinity or NaN
  double largest = 0, smallest = 0;  // magnitudes of finite elements that are not zero; 0: none
  double squares = 0, error_squares = 0;  // sums over the numbers, and over their rounding errors
  // exponents[i] counts the numbers with a magnitude of 2^e to 2^(e + 1), e = i + least_exponent,
  // up to 127, without zeros.
  static constexpr int least_exponent = -150;
  std::array<std::uint64_t, 278> exponents{};

  // `some` as a share of all elements that are not zero.
  double share(std::uint64_t some) const;
  // Signal to quantization noise in decibels; infinite if no number changed.
  double signal_to_noise() const;

  Inspection& operator+=(const Inspection& other);
};

// Adds an element `from` that became `to`; `limit` and `normal` are the format's largest and
// smallest normal number, times the scale.
void inspect(Inspection& result, float from, float to, double limit, double normal);

// The effect of `format` on values divided by `scale`, rounded to nearest, with finite values kept
// within the format's range. One element at a time: for experiments.
Inspection inspect(std::span<const float> values, const FloatFormat& format, float scale = 1);

// The number of elements that an update left unchanged.
std::uint64_t unmoved(std::span<const float> before, std::span<const float> after);

}  // namespace SOMA_NAMESPACE::numeric

#ifndef SOMA_DISPATCH
#include <soma/numeric/impl/inspect.ipp>
#endif
