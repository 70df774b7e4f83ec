#pragma once
// Element types: the 16-bit floats, the enumeration of all types, and the C++ type for each.

#include <soma/compat/processor.hpp>

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace soma_compat {
inline namespace v2 {

namespace detail {

inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// To the nearest, ties to the even code.
inline std::uint16_t to_bfloat16(float value) {
  const std::uint32_t bits = bits_of(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
    return static_cast<std::uint16_t>((bits >> 16) | 0x40u);  // a quiet NaN
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}
inline std::uint16_t to_half(float value) {
  const std::uint32_t bits = bits_of(value), sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  const auto signed_code = [sign](std::uint32_t code) {
    return static_cast<std::uint16_t>(sign | code);
  };
  if (magnitude > 0x7F800000u) return signed_code(0x7E00u | ((magnitude >> 13) & 0x3FFu));
  if (magnitude >= 0x477FF000u) return signed_code(0x7C00u);  // 65520 and more round to infinity
  if (magnitude < 0x38800000u) {                              // below 2^-14: units of 2^-24
    // Adding 1/2, at which fp32 has units of 2^-24, leaves the rounded code in the lowest bits.
    return signed_code(bits_of(float_of(magnitude) + 0.5f) - 0x3F000000u);
  }
  const std::uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
  return signed_code((rounded - 0x38000000u) >> 13);
}
inline float from_half(std::uint16_t code) {
  const std::uint32_t sign = (code & 0x8000u) << 16, exponent = (code >> 10) & 0x1Fu,
                      mantissa = code & 0x3FFu;
  if (exponent == 0x1Fu) return float_of(sign | 0x7F800000u | (mantissa << 13));
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  return float_of(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

}  // namespace detail

// Arithmetic is done in float.
struct Half {
  std::uint16_t x = 0;
  Half() = default;
  Half(float value) : x(detail::to_half(value)) {}  // NOLINT: as a number
  operator float() const { return detail::from_half(x); }
};
struct BFloat16 {
  std::uint16_t x = 0;
  BFloat16() = default;
  BFloat16(float value) : x(detail::to_bfloat16(value)) {}  // NOLINT: as a number
  operator float() const { return detail::float_of(static_cast<std::uint32_t>(x) << 16); }
};

enum class ScalarType : std::int32_t {
  Float = SOMA_FP32,
  Half = SOMA_FP16,
  BFloat16 = SOMA_BF16,
  Char = SOMA_INT8,
  Byte = SOMA_UINT8,
  Short = SOMA_INT16,
  Int = SOMA_INT32,
  Long = SOMA_INT64,
};
inline constexpr ScalarType kFloat = ScalarType::Float, kHalf = ScalarType::Half,
                            kBFloat16 = ScalarType::BFloat16, kChar = ScalarType::Char,
                            kByte = ScalarType::Byte, kShort = ScalarType::Short,
                            kInt = ScalarType::Int;
// The type exists and is refused at run time: tensors of it are not supported.
inline constexpr ScalarType kLong = ScalarType::Long;

namespace detail {

template <class T>
constexpr std::int32_t dtype_of() {
  if constexpr (std::is_same_v<T, float>)
    return SOMA_FP32;
  else if constexpr (std::is_same_v<T, Half>)
    return SOMA_FP16;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return SOMA_BF16;
  else if constexpr (std::is_same_v<T, std::int8_t> || std::is_same_v<T, char>)
    return SOMA_INT8;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return SOMA_UINT8;
  else if constexpr (std::is_same_v<T, std::int16_t>)
    return SOMA_INT16;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return SOMA_INT32;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return SOMA_INT64;
  else
    static_assert(dependent_false<T>,
                  "tensors have elements of float, at::Half, at::BFloat16, int32_t, int16_t, "
                  "int8_t or uint8_t");
}

}  // namespace detail

// A number of a call. Integers stay exact.
class Scalar {
 public:
  Scalar() = default;
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Scalar(T value)  // NOLINT: as a number
      : number_(static_cast<double>(value)),
        integer_(std::is_integral_v<T> ? static_cast<std::int64_t>(value) : 0),
        integral_(std::is_integral_v<T>) {}
  Scalar(Half value) : Scalar(static_cast<float>(value)) {}      // NOLINT: as a number
  Scalar(BFloat16 value) : Scalar(static_cast<float>(value)) {}  // NOLINT: as a number

  template <class T>
  T to() const {
    if constexpr (std::is_arithmetic_v<T>)
      return integral_ ? static_cast<T>(integer_) : static_cast<T>(number_);
    else
      return T(static_cast<float>(number_));
  }
  double toDouble() const { return to<double>(); }
  float toFloat() const { return to<float>(); }
  int toInt() const { return to<int>(); }
  std::int64_t toLong() const { return to<std::int64_t>(); }
  bool isFloatingPoint() const { return !integral_; }
  bool isIntegral(bool = false) const { return integral_; }

  soma_processor_operand operand() const { return {nullptr, number_, integer_, integral_ ? 1 : 0}; }

 private:
  double number_ = 0;
  std::int64_t integer_ = 0;
  bool integral_ = true;
};

// Options of a new tensor. Only the element type has an effect.
class TensorOptions {
 public:
  TensorOptions() = default;
  TensorOptions(ScalarType type) : type_(type), has_type_(true) {}  // NOLINT: as torch::kFloat
  TensorOptions dtype(ScalarType type) const { return TensorOptions(type); }
  bool has_dtype() const { return has_type_; }
  ScalarType dtype() const { return type_; }

 private:
  ScalarType type_ = ScalarType::Float;
  bool has_type_ = false;
};
inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }

}  // namespace v2
}  // namespace soma_compat
