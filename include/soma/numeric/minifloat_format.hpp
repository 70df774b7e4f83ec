#pragma once
// std::format for minifloat, where the standard library has it (__cpp_lib_format). api.hpp leaves
// it out: <format> alone costs as much as all of api.hpp.

#include <soma/numeric/minifloat.hpp>

#include <version>
#if defined(__cpp_lib_format)
#include <format>

// The format specification of float: std::format("{:.3f}", x).
template <soma::FloatFormat F, class Character>
struct std::formatter<soma::minifloat<F>, Character> : std::formatter<float, Character> {
  template <class Context>
  auto format(soma::minifloat<F> value, Context& context) const {
    return std::formatter<float, Character>::format(static_cast<float>(value), context);
  }
};
#endif
