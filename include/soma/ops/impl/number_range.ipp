#pragma once
// The functions of number_range.hpp.

#include <soma/ops/number_range.hpp>

#include <soma/base/error_ids.hpp>
#include <soma/base/record.hpp>

#include <cmath>
#include <limits>
#include <string>

namespace SOMA_NAMESPACE {

SOMA_INLINE bool NumberRange::contains(double value) const {
  if (fp32) value = static_cast<double>(static_cast<float>(value));
  if (std::isnan(value)) return nan;
  if (std::isinf(value) && !infinite) return false;
  return (open_least ? value > least : value >= least) &&
         (open_most ? value < most : value <= most);
}

SOMA_INLINE std::string NumberRange::describe(bool whole) const {
  const auto text = [](double bound) {
    std::string digits = to_text(bound);
    if (digits.ends_with(".0")) digits.resize(digits.size() - 2);
    return digits;
  };
  const std::string rounded = fp32 ? " in fp32" : "";
  const bool has_least = std::isfinite(least), has_most = std::isfinite(most);
  if (has_least && has_most) {
    if (open_least)
      return "above " + text(least) + (open_most ? ", below " : ", up to ") + text(most) + rounded;
    return text(least) + (open_most ? " to below " : " to ") + text(most) + rounded;
  }
  if (whole && has_least) return (open_least ? "more than " : "at least ") + text(least);
  const std::string number = infinite ? "a number" : "a finite number";
  if (has_least) return number + (open_least ? " above " : " from ") + text(least) + rounded;
  if (has_most) return number + (open_most ? " below " : " up to ") + text(most) + rounded;
  return number + rounded;
}

}  // namespace SOMA_NAMESPACE
