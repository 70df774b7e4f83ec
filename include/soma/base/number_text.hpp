#pragma once
// Numbers from text. std::from_chars reads numbers with a point in libstdc++ 11 and newer and in
// libc++ 20 and newer only; elsewhere soma reads them itself, right to the last bit.

#include <soma/base/config.hpp>

#include <charconv>
#include <string_view>
#include <type_traits>
#include <version>

namespace SOMA_NAMESPACE {

namespace detail {

// std::from_chars(text.data(), text.data() + text.size(), value) in soma's own way: digits with a
// point and an exponent, "inf", "nan". Numbers too large or too small are out of range and leave
// `value` as it is. Some microseconds where a number has many digits or a large exponent.
std::from_chars_result own_from_chars(std::string_view text, float& value);
std::from_chars_result own_from_chars(std::string_view text, double& value);

}  // namespace detail

// Reads the number that the text begins with, as std::from_chars does: `ptr` is behind it.
template <class Number>
std::from_chars_result number_from(std::string_view text, Number& value) {
#if !defined(__cpp_lib_to_chars)
  if constexpr (std::is_floating_point_v<Number>)
    return detail::own_from_chars(text, value);
  else
#endif
    return std::from_chars(text.data(), text.data() + text.size(), value);
}

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/base/impl/number_text.ipp>
#endif
