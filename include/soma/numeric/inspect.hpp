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

namespace soma::numeric {

// Counts of elements, and sums over the finite elements. Two inspections can be added.
struct Inspection {
  std::uint64_t count = 0, zeros = 0, infinities = 0, nans = 0;
  std::uint64_t exact = 0;           // finite, unchanged; zeros included
  std::uint64_t underflow = 0;       // finite and beyond the largest number: became that number,
                                     // infinity or NaN
  std::uint64_t subnormal = 0;       // became a subnormal number of the format, not zero
  std::uint64_t saturated = 0;       // squares of the numbers and of their errors
  double largest = 0, smallest = 0;  // magnitudes of finite elements that are not zero; 0: none
  double squares = 0, error_squares = 0;  // sums over the numbers, and over their rounding errors
  // exponents[i] counts the numbers with a magnitude of 2^e to 2^(e + 1), e = i + least_exponent,
  // up to 127, without zeros.
  static constexpr int least_exponent = -150;
  std::array<std::uint64_t, 278> exponents{};

  // `some` as a share of all elements that are not zero.
  double share(std::uint64_t some) const {
    return count == zeros ? 0 : static_cast<double>(some) / static_cast<double>(count - zeros);
  }
  // Signal to quantization noise in decibels; infinite if no number changed.
  double signal_to_noise() const { return 10 * std::log10(squares / error_squares); }

  Inspection& operator+=(const Inspection& other) {
    const bool none = largest == 0;
    for (auto member : {&Inspection::count, &Inspection::zeros, &Inspection::infinities,
                        &Inspection::nans, &Inspection::exact, &Inspection::underflow,
                        &Inspection::subnormal, &Inspection::saturated})
      this->*member += other.*member;
    largest = (std::max)(largest, other.largest);
    if (other.largest != 0) smallest = none ? other.smallest : (std::min)(smallest, other.smallest);
    squares += other.squares;
    error_squares += other.error_squares;
    for (std::size_t i = 0; i < exponents.size(); ++i) exponents[i] += other.exponents[i];
    return *this;
  }
};

// Adds an element `from` that became `to`; `limit` and `normal` are the format's largest and
// smallest normal number, times the scale.
inline void inspect(Inspection& result, float from, float to, double limit, double normal) {
  ++result.count;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(from) & 0x7FFFFFFFu;
  if (bits >= 0x7F800000u) {
    ++(bits == 0x7F800000u ? result.infinities : result.nans);
    return;
  }
  if (bits == 0) {
    ++result.zeros;
    ++result.exact;
    return;
  }
  const double magnitude = std::abs(double{from}), became = std::abs(double{to});
  result.largest = (std::max)(result.largest, magnitude);
  result.smallest = result.smallest == 0 ? magnitude : (std::min)(result.smallest, magnitude);
  // Every fp32 number is a normal number in double.
  const auto exponent = static_cast<int>(std::bit_cast<std::uint64_t>(magnitude) >> 52) - 1023;
  ++result.exponents[static_cast<std::size_t>(exponent - Inspection::least_exponent)];
  result.squares += magnitude * magnitude;
  if (became <= static_cast<double>((std::numeric_limits<float>::max)())) {
    const double moved = double{to} - double{from};
    result.error_squares += moved * moved;
  }
  if (to == from)
    ++result.exact;
  else if (to == 0)
    ++result.underflow;
  else if (magnitude > limit)
    ++result.saturated;
  if (to != 0 && became < normal) ++result.subnormal;
}

// The effect of `format` on values divided by `scale`, rounded to nearest, with finite values kept
// within the format's range. One element at a time: for experiments.
inline Inspection inspect(std::span<const float> values, const FloatFormat& format,
                          float scale = 1) {
  const double largest = decode(format, format.max_finite_code());
  const double normal = std::ldexp(1.0, format.min_normal_exponent()) * double{scale};
  const float inverse = 1 / scale;
  Inspection result;
  for (const float value : values) {
    float scaled = value * inverse;
    if (std::isfinite(value))
      scaled = (std::clamp)(scaled, static_cast<float>(-largest), static_cast<float>(largest));
    inspect(result, value, decode(format, encode(format, scaled)) * scale, largest * double{scale},
            normal);
  }
  return result;
}

// The number of elements that an update left unchanged.
inline std::uint64_t unmoved(std::span<const float> before, std::span<const float> after) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < before.size() && i < after.size(); ++i)
    count += before[i] == after[i] ? 1u : 0u;
  return count;
}

}  // namespace soma::numeric
