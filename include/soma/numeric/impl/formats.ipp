#pragma once
// The functions of formats.hpp.

#include <soma/numeric/formats.hpp>

#include <soma/base/error.hpp>
#include <soma/numeric/float_format.hpp>

#include <array>
#include <iosfwd>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

SOMA_INLINE std::string to_string(const FloatFormat& format) {
  const auto suffix = [&] {
    switch (format.overflow) {
      case Overflow::saturate:
        return " saturate";
      case Overflow::infinity:
        return " overflow-to-infinity";
      case Overflow::nan:
        return " overflow-to-nan";
      default:
        return "";
    }
  };
  for (const NamedFormat& known : named_formats)
    if (known.format == format.with(Overflow::special)) return std::string(known.name) + suffix();

  std::string text = format.is_signed ? "1-" : "0-";
  text += std::to_string(format.exponent_bits) + "-" + std::to_string(format.mantissa_bits);
  text += " bias " + std::to_string(format.bias);
  switch (format.specials) {
    case Specials::none:
      text += " finite";
      break;
    case Specials::ieee:
      text += " ieee";
      break;
    case Specials::nan_all_ones:
      text += " nan-all-ones";
      break;
    case Specials::nan_negative_zero:
      text += " nan-negative-zero";
      break;
  }
  if (format.subnormals == Subnormals::flushed) text += " subnormals-flushed";
  if (format.subnormals == Subnormals::absent) text += " no-zero";
  return text + suffix();
}

SOMA_INLINE const FloatFormat& find_format(std::string_view name) {
  for (const NamedFormat& known : named_formats)
    if (known.name == name) return known.format;
  std::string wanted = "one of";
  for (const NamedFormat& known : named_formats) wanted.append(" ").append(known.name);
  fail(error_id::unknown_format, "find_format", "name", quoted(name), wanted);
}

SOMA_INLINE const FloatFormat& validate(const FloatFormat& format, std::string_view operation) {
  if (const char* problem = format.problem())
    fail(error_id::impossible_format, operation, "format", to_string(format), problem);
  return format;
}

}  // namespace SOMA_NAMESPACE
