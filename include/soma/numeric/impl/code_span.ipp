#pragma once
// The functions of code_span.hpp.

#include <soma/numeric/code_span.hpp>

#include <soma/base/sizes.hpp>
#include <soma/numeric/formats.hpp>

#include <cstddef>
#include <span>
#include <type_traits>

namespace SOMA_NAMESPACE {

SOMA_INLINE CodeSpan code_span(const FloatFormat& format, std::span<std::byte> bytes) {
  return detail::code_span(format, bytes);
}

SOMA_INLINE ConstCodeSpan code_span(const FloatFormat& format, std::span<const std::byte> bytes) {
  return detail::code_span(format, bytes);
}

}  // namespace SOMA_NAMESPACE
