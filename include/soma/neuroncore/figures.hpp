#pragma once
// Published numbers with their sources.

#include <soma/base/config.hpp>

#include <string_view>

namespace SOMA_NAMESPACE::neuroncore {

// A published number and its source. 0 without a source: not given.
struct Figure {
  double value = 0;
  std::string_view source{};

  constexpr bool given() const { return !source.empty(); }
};

// A number from one source, and from another source if the two disagree.
struct Figures {
  Figure first{}, other{};

  constexpr bool given() const { return first.given(); }
  constexpr bool disagree() const { return other.given(); }
};

}  // namespace SOMA_NAMESPACE::neuroncore
