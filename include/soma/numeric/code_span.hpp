#pragma once
// CodeSpan: bytes together with their format, which is chosen at run time. All conversions have an
// overload that takes CodeSpan.

#include <soma/base/sizes.hpp>
#include <soma/numeric/formats.hpp>

#include <cstddef>
#include <span>
#include <type_traits>

namespace SOMA_NAMESPACE {

// A matrix of codes, `rows` x `columns`, each code format.bytes() wide. Rows are `row_stride` bytes
// apart, and the codes of a row are adjacent. A plain array is one row. The span does not own the
// bytes; copies of the span see the same bytes.
template <class Byte>
struct BasicCodeSpan {
  FloatFormat format;
  Byte* data = nullptr;
  std::size_t rows = 1, columns = 0;
  std::size_t row_stride = 0;  // bytes; at least row_bytes() where there are several rows

  constexpr std::size_t size() const { return rows * columns; }
  constexpr std::size_t row_bytes() const {
    return columns * static_cast<std::size_t>(format.bytes());
  }
  constexpr bool contiguous() const { return rows <= 1 || row_stride == row_bytes(); }
  constexpr Byte* row(std::size_t index) const { return data + index * row_stride; }

  constexpr operator BasicCodeSpan<const std::byte>() const requires(!std::is_const_v<Byte>) {
    return {format, data, rows, columns, row_stride};
  }
};

using CodeSpan = BasicCodeSpan<std::byte>;
using ConstCodeSpan = BasicCodeSpan<const std::byte>;

namespace detail {

template <class Byte>
BasicCodeSpan<Byte> code_span(const FloatFormat& format, std::span<Byte> bytes) {
  validate(format, "code_span");
  const auto width = static_cast<std::size_t>(format.bytes());
  if (bytes.size() % width != 0)
    fail(error_id::bad_layout, "code_span", "bytes", std::to_string(bytes.size()) + " bytes",
         "a multiple of " + std::to_string(width) + " (" + to_string(format) + ")");
  return {format, bytes.data(), 1, bytes.size() / width, bytes.size()};
}

}  // namespace detail

// One row that fills `bytes`. Errors format.impossible, convert.layout (the size is no multiple of
// the code width).
CodeSpan code_span(const FloatFormat& format, std::span<std::byte> bytes);
ConstCodeSpan code_span(const FloatFormat& format, std::span<const std::byte> bytes);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/numeric/impl/code_span.ipp>
#endif
