// Elements of any type as a kernel stores them, and the floats that they are: what tests hand to
// kernels and compare with.
#pragma once

#include <soma/numeric/codec.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/numeric/rounding.hpp>
#include <soma/tensor/dtype.hpp>

#include "support/samples.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace soma_test {

// The little-endian bytes of an integer, at element `index`.
template <class Integer>
void put(std::vector<std::byte>& bytes, std::size_t index, std::size_t width, Integer value) {
  std::memcpy(bytes.data() + index * width, &value, width);
}

// The stored elements of floating type `dtype` that `values` round to; element i draws at
// draw.index + i.
inline std::vector<std::byte> stored(soma::DType dtype, std::span<const float> values,
                                     const soma::Rounding& rounding = {},
                                     const soma::Draw& draw = {}) {
  const soma::FloatFormat& format = soma::format_of(dtype);
  const std::size_t width = soma::size_of(dtype);
  const int bits = soma::random_bits(rounding, format);
  std::vector<std::byte> bytes(values.size() * width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t random = rounding.mode == soma::RoundingMode::stochastic
                                     ? soma::rounding_word(draw, bits, i, rounding.draws)
                                     : 0;
    const std::uint32_t code = soma::encode(format, values[i], rounding, random);
    put(bytes, i, width, code << format.storage_shift());
  }
  return bytes;
}

// Finite numbers below 8 that every floating type has a neighbour for; none negative for e8m0.
inline std::vector<float> small_floats(soma::DType dtype, std::size_t count,
                                       std::uint64_t seed = 1) {
  std::vector<float> values = finite_floats(count, seed);
  for (float& value : values) {
    value = std::fmod(value, 8.0f);
    if (!soma::format_of(dtype).is_signed) value = std::fabs(value);
  }
  return values;
}

// The value of stored element `index`, of any type.
inline float value_of(soma::DType dtype, std::span<const std::byte> bytes, std::size_t index) {
  const std::size_t width = soma::size_of(dtype);
  const std::byte* at = bytes.data() + index * width;
  const auto read = [&](auto integer) {
    std::memcpy(&integer, at, width);
    return integer;
  };
  if (dtype == soma::DType::int8) return static_cast<float>(read(std::int8_t{}));
  if (dtype == soma::DType::int16) return static_cast<float>(read(std::int16_t{}));
  if (dtype == soma::DType::int32) return static_cast<float>(read(std::int32_t{}));
  if (dtype == soma::DType::uint16) return static_cast<float>(read(std::uint16_t{}));
  if (dtype == soma::DType::uint32) return static_cast<float>(read(std::uint32_t{}));
  if (dtype == soma::DType::int64) return static_cast<float>(read(std::int64_t{}));
  if (!soma::is_floating(dtype)) return static_cast<float>(read(std::uint8_t{}));
  const soma::FloatFormat& format = soma::format_of(dtype);
  return soma::decode(format, read(std::uint32_t{}) >> format.storage_shift());
}

inline std::vector<float> values_of(soma::DType dtype, std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / soma::size_of(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(dtype, bytes, i);
  return values;
}

// The same bits, except that any NaN equals any other: which one an operation makes is the
// machine's choice.
inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0 && !(std::isnan(a[i]) && std::isnan(b[i])))
      return false;
  return true;
}

}  // namespace soma_test
