#pragma once
// PatternStep: a dimension of an access pattern, by the vendor's convention: the first number is
// the stride, the second the count.

#include <concepts>
#include <cstddef>
#include <string>

namespace SOMA_NAMESPACE::neuroncore {

// Element i of a pattern {{s0, n0}, {s1, n1}} from an offset on is at
// offset + (i / n1) * s0 + (i % n1) * s1: the last dimension is the innermost. Both are in
// elements.
struct PatternStep {
  std::ptrdiff_t stride = 1;
  std::size_t count = 1;

  constexpr PatternStep() = default;
  // Any integers, so that {columns, 4} needs no cast.
  template <std::integral Stride, std::integral Count>
  constexpr PatternStep(Stride step, Count times)
      : stride(static_cast<std::ptrdiff_t>(step)), count(static_cast<std::size_t>(times)) {}

  // "{512, 4}"
  std::string text() const {
    return "{" + std::to_string(stride) + ", " + std::to_string(count) + "}";
  }
};

}  // namespace SOMA_NAMESPACE::neuroncore
