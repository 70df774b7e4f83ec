#pragma once
// The functions of print.hpp.

#include <soma/tensor/print.hpp>

#include <soma/numeric/codec.hpp>
#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE FloatNotation FloatNotation::choose(const std::vector<double>& values, int precision) {
  FloatNotation result{.precision = std::clamp(precision, 0, 20)};
  double least = 0, largest = 0;
  for (const double value : values) {
    if (value == 0 || !std::isfinite(value)) continue;
    const double magnitude = std::abs(value);
    least = least == 0 ? magnitude : (std::min)(least, magnitude);
    largest = (std::max)(largest, magnitude);
    if (std::trunc(value) != value) result.integral = false;
  }
  result.scientific = largest > 1e8 || largest > 1000 * least || (!result.integral && least < 1e-4);
  return result;
}

SOMA_INLINE std::string FloatNotation::text(double value) const {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[400];  // the longest: fixed, below 1e9
  const bool fixed = !scientific;
  const auto format = fixed ? std::chars_format::fixed : std::chars_format::scientific;
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, format,
                                    fixed && integral ? 0 : precision);
  std::string text(buffer, result.ptr);
  if (fixed && integral) text.push_back('.');
  return text;
}

SOMA_INLINE std::string TensorPrinter::text() {
  if (!tensor_.defined()) return "no tensor";
  std::string result = "[]";
  if (tensor_.elements() != 0) {
    collect(0, 0);
    make_texts();
    result.clear();
    append(result, 0);
  }
  result.append(", shape ").append(to_string(tensor_.shape()));
  return result.append(", ").append(to_string(tensor_.dtype()));
}

SOMA_INLINE void TensorPrinter::collect(std::size_t dimension, std::size_t offset) {
  if (dimension == tensor_.rank()) return collect_element(offset);
  walk(
      dimension,
      [&](std::size_t i) { collect(dimension + 1, offset + i * tensor_.strides()[dimension]); },
      [] {});
}

SOMA_INLINE void TensorPrinter::collect_element(std::size_t offset) {
  const std::size_t width = size_of(tensor_.dtype());
  const std::byte* at = tensor_.raw() + offset * width;
  const auto read = [&]<class T>(T value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  if (is_floating(tensor_.dtype())) {
    const FloatFormat& format = format_of(tensor_.dtype());
    const std::uint32_t bits = width == 4   ? read(std::uint32_t{})
                               : width == 2 ? read(std::uint16_t{})
                                            : read(std::uint8_t{});
    values_.push_back(static_cast<double>(decode(format, bits >> format.storage_shift())));
    return;
  }
  switch (tensor_.dtype()) {
    case DType::boolean:
      return texts_.push_back(read(std::uint8_t{}) != 0 ? "true" : "false");
    case DType::int8:
      return texts_.push_back(std::to_string(read(std::int8_t{})));
    case DType::uint8:
      return texts_.push_back(std::to_string(read(std::uint8_t{})));
    case DType::int16:
      return texts_.push_back(std::to_string(read(std::int16_t{})));
    case DType::uint16:
      return texts_.push_back(std::to_string(read(std::uint16_t{})));
    case DType::uint32:
      return texts_.push_back(std::to_string(read(std::uint32_t{})));
    case DType::int32:
      return texts_.push_back(std::to_string(read(std::int32_t{})));
    default:
      return texts_.push_back(std::to_string(read(std::int64_t{})));
  }
}

SOMA_INLINE void TensorPrinter::make_texts() {
  const FloatNotation notation = FloatNotation::choose(values_, options_.precision);
  for (const double value : values_) texts_.push_back(notation.text(value));
  for (const std::string& text : texts_) width_ = (std::max)(width_, text.size());
}

SOMA_INLINE void TensorPrinter::append_number(std::string& result) {
  const std::string& number = texts_[next_++];
  result.append(width_ - number.size(), ' ').append(number);
}

SOMA_INLINE void TensorPrinter::append(std::string& result, std::size_t dimension) {
  if (tensor_.rank() == 0) return append_number(result);
  if (dimension + 1 == tensor_.rank()) return append_row(result);
  std::string separator = ",";
  separator.append(tensor_.rank() - dimension - 1, '\n').append(dimension + 1, ' ');
  bool first = true;
  const auto separate = [&] {
    if (!first) result.append(separator);
    first = false;
  };
  result.push_back('[');
  walk(
      dimension,
      [&](std::size_t) {
        separate();
        append(result, dimension + 1);
      },
      [&] {
        separate();
        result.append("...");
      });
  result.push_back(']');
}

SOMA_INLINE void TensorPrinter::append_row(std::string& result) {
  const std::size_t indent = tensor_.rank();
  const std::size_t room = options_.line_width > indent ? options_.line_width - indent : 0;
  const std::size_t in_line = (std::max)(room / (width_ + 2), std::size_t{1});
  std::size_t column = 0;
  const auto separate = [&] {
    if (column != 0) result.push_back(',');
    if (column != 0 && column % in_line == 0)
      result.append(1, '\n').append(indent, ' ');
    else if (column != 0)
      result.push_back(' ');
    ++column;
  };
  result.push_back('[');
  walk(
      tensor_.rank() - 1,
      [&](std::size_t) {
        separate();
        append_number(result);
      },
      [&] {
        separate();
        result.append("...");
      });
  result.push_back(']');
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE std::string to_string(const Tensor& tensor, const PrintOptions& options) {
  return detail::TensorPrinter(tensor, options).text();
}

}  // namespace SOMA_NAMESPACE
