// A custom ReLU from two expressions: instead of a corner, the function bends as x^2 (2 - x)
// between 0 and 1.
#pragma once

#include <soma/api.hpp>

namespace example {

// "example::bent_line". Shape rule, all floating types, strides, threads and samples for
// soma::testing::check_operator are derived automatically.
inline soma::OperatorFunction<> register_bent_line(soma::Context& context) {
  return soma::register_elementwise(
      context.operators(), "example::bent_line",
      [](float x) { return x <= 0  ? 0
                           : x < 1 ? x * x * (2 - x)
                                   : x; },
      [](float x, float dy) {
        return dy * (x <= 0 ? 0 : x < 1 ? x * (4 - 3 * x) : 1);
      });
}

}  // namespace example
