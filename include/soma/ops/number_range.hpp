#pragma once
// NumberRange: the values that a number of options or settings may have. Tables of numbers
// (ops/fields.hpp) name a range for each.

#include <soma/base/error_ids.hpp>

#include <limits>
#include <string>

namespace SOMA_NAMESPACE {

// By default every finite number.
struct NumberRange {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool open_least = false, open_most = false;  // the bound itself is refused
  bool infinite = false;                       // infinity is a value like others
  bool nan = false;                            // NaN is, too
  // The number is computed with in fp32: it is rounded before it is compared, so that 1e-60 counts
  // as 0.
  bool fp32 = false;
  ErrorId id{};  // of the error; empty: the id of the struct that the number is in

  static constexpr NumberRange at_least(double bound) { return {.least = bound}; }
  static constexpr NumberRange above(double bound) { return {.least = bound, .open_least = true}; }
  static constexpr NumberRange within(double first, double last) {
    return {.least = first, .most = last};
  }
  static constexpr NumberRange from_to_below(double first, double bound) {
    return {.least = first, .most = bound, .open_most = true};
  }

  bool contains(double value) const;
  // "a finite number above 0", "0 to below 1"; for whole numbers "at least 1".
  std::string describe(bool whole = false) const;
};

inline constexpr NumberRange any_number{.infinite = true, .nan = true};
inline constexpr NumberRange finite_number{};

// The numbers that many tables have.
inline constexpr NumberRange epsilon_range{.least = 0, .open_least = true, .fp32 = true};
inline constexpr NumberRange dropout_range{
    .least = 0, .most = 1, .open_most = true, .fp32 = true, .id = error_id::probability};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/number_range.ipp>
#endif
