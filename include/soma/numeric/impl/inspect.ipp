#pragma once
// The functions of inspect.hpp.

#include <soma/numeric/inspect.hpp>

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

SOMA_INLINE double Inspection::share(std::uint64_t some) const {
  return count == zeros ? 0 : static_cast<double>(some) / static_cast<double>(count - zeros);
}

SOMA_INLINE double Inspection::signal_to_noise() const {
  return 10 * std::log10(squares / error_squares);
}

SOMA_INLINE Inspection& Inspection::operator+=(const Inspection& other) {
  const bool none = largest == 0;
  for (auto member :
       {&Inspection::count, &Inspection::zeros, &Inspection::infinities, &Inspection::nans,
        &Inspection::exact, &Inspection::underflow, &Inspection::subnormal, &Inspection::saturated})
    this->*member += other.*member;
  largest = (std::max)(largest, other.largest);
  if (other.largest != 0) smallest = none ? other.smallest : (std::min)(smallest, other.smallest);
  squares += other.squares;
  error_squares += other.error_squares;
  for (std::size_t i = 0; i < exponents.size(); ++i) exponents[i] += other.exponents[i];
  return *this;
}

SOMA_INLINE void inspect(Inspection& result, float from, float to, double limit, double normal) {
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

SOMA_INLINE Inspection inspect(std::span<const float> values, const FloatFormat& format,
                               float scale) {
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

SOMA_INLINE std::uint64_t unmoved(std::span<const float> before, std::span<const float> after) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < before.size() && i < after.size(); ++i)
    count += before[i] == after[i] ? 1u : 0u;
  return count;
}

}  // namespace SOMA_NAMESPACE::numeric
