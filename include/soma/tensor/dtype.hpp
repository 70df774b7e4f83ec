#pragma once
// DType: the element type of a tensor. A floating type is a FloatFormat record under a short tag;
// numeric/formats.hpp alone defines the numbers of a format.

#include <soma/base/error.hpp>
#include <soma/numeric/formats.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace SOMA_NAMESPACE {

// g++ reports an enumerator of a scoped enumeration as shadowing the type of the same name.
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif
enum class DType : std::uint8_t {
  fp32,
  tf32,  // stored as fp32 with the last 13 bits zero
  fp16,
  bf16,
  fp8_e3m4,
  fp8_e4m3,
  fp8_e5m2,
  fp8_e4m3fn,
  fp8_e4m3fnuz,
  fp8_e5m2fnuz,
  e8m0,
  int8,
  uint8,
  int32,
  int64,
  boolean,  // a byte, 0 or 1
  int16,
  uint16,
  uint32,  // new types go behind: files and soma/plugin.h hold these numbers
};
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

namespace detail {

struct DTypeInfo {
  std::string_view name;
  std::uint8_t bytes;
  // A copy of the record: under -fsanitize=undefined g++ 12 cannot compare a pointer to it with
  // nullptr at compile time.
  FloatFormat format{};
  bool floating = false;
};

inline constexpr std::array<DTypeInfo, 19> dtype_infos{{
    {"fp32", 4, formats::fp32, true},
    {"tf32", 4, formats::tf32, true},
    {"fp16", 2, formats::fp16, true},
    {"bf16", 2, formats::bf16, true},
    {"fp8_e3m4", 1, formats::fp8_e3m4, true},
    {"fp8_e4m3", 1, formats::fp8_e4m3, true},
    {"fp8_e5m2", 1, formats::fp8_e5m2, true},
    {"fp8_e4m3fn", 1, formats::fp8_e4m3fn, true},
    {"fp8_e4m3fnuz", 1, formats::fp8_e4m3fnuz, true},
    {"fp8_e5m2fnuz", 1, formats::fp8_e5m2fnuz, true},
    {"e8m0", 1, formats::e8m0, true},
    {"int8", 1, {}},
    {"uint8", 1, {}},
    {"int32", 4, {}},
    {"int64", 8, {}},
    {"bool", 1, {}},
    {"int16", 2, {}},
    {"uint16", 2, {}},
    {"uint32", 4, {}},
}};

constexpr const DTypeInfo& info(DType dtype) {
  return dtype_infos[static_cast<std::size_t>(dtype)];
}

// The index of the floating type with that format; -1 if there is none.
constexpr int dtype_index(const FloatFormat& format) {
  for (std::size_t i = 0; i < dtype_infos.size(); ++i)
    if (dtype_infos[i].floating && dtype_infos[i].format == format) return static_cast<int>(i);
  return -1;
}

}  // namespace detail

// All types, in the order of the enumeration.
inline constexpr std::array<DType, 19> dtypes{
    DType::fp32,     DType::tf32,     DType::fp16,       DType::bf16,         DType::fp8_e3m4,
    DType::fp8_e4m3, DType::fp8_e5m2, DType::fp8_e4m3fn, DType::fp8_e4m3fnuz, DType::fp8_e5m2fnuz,
    DType::e8m0,     DType::int8,     DType::uint8,      DType::int32,        DType::int64,
    DType::boolean,  DType::int16,    DType::uint16,     DType::uint32};

constexpr std::size_t size_of(DType dtype) { return detail::info(dtype).bytes; }
constexpr std::string_view to_string(DType dtype) { return detail::info(dtype).name; }
constexpr bool is_floating(DType dtype) { return detail::info(dtype).floating; }

// The format of a floating type. Floating types only.
constexpr const FloatFormat& format_of(DType dtype) { return detail::info(dtype).format; }

// Error tensor.unknown_dtype lists the known names.
DType find_dtype(std::string_view name);

// The type whose elements have that format, whatever its overflow policy. Error
// tensor.unknown_dtype.
DType find_dtype(const FloatFormat& format);

// dtype_of<T>: the tag of a C++ type. A type without a tag is a compile error.
template <class T>
struct DTypeOf;

template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

namespace detail {
// dtype_of for elements of a tensor: its error for double names the types to use instead.
template <class T>
consteval DType dtype_of_elements() {
  constexpr bool is_double = std::is_same_v<T, double>;
  static_assert(!is_double,
                "soma has no tensors of double: convert the elements first, for example with "
                "std::vector<float>(values.begin(), values.end())");
  if constexpr (is_double)
    return DType::fp32;
  else
    return dtype_of<T>;
}
}  // namespace detail

template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::fp32;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::int8;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::uint8;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::int16;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::uint16;
};
template <>
struct DTypeOf<std::uint32_t> {
  static constexpr DType value = DType::uint32;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::int32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};

template <FloatFormat F>
class minifloat;  // numeric/minifloat.hpp

template <FloatFormat F>
requires(detail::dtype_index(F) >= 0) struct DTypeOf<minifloat<F>> {
  static constexpr DType value = static_cast<DType>(detail::dtype_index(F));
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/tensor/impl/dtype.ipp>
#endif
