#pragma once
// Report: the checks of an operator, those that were impossible, and the failures.

#include <soma/base/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::testing {

enum class Topic : std::uint8_t {
  samples,
  repetition,
  bounds,
  shapes,
  results,
  gradients,
  strides,
  types,
  inputs,
  threads,
  targets
};
inline constexpr std::array<std::string_view, 11> topic_names{"its samples are accepted",
                                                              "equal calls, equal bits",
                                                              "no reads or writes out of bounds",
                                                              "the shape rule",
                                                              "results against the reference",
                                                              "gradients against differences",
                                                              "inputs with gaps",
                                                              "every floating type",
                                                              "wrong numbers of inputs are refused",
                                                              "any threads, in any order",
                                                              "instruction sets"};

struct Report {
  std::string name;                                        // the operator's name
  std::size_t checks = 0;                                  // comparisons made
  std::array<std::size_t, topic_names.size()> by_topic{};  // comparisons for each topic
  std::vector<std::string> not_checked;                    // the topics left out, and why
  std::vector<std::string> failures;

  bool passed() const;
};

// Several lines: the checks, those that were impossible, and every failure.
std::string to_string(const Report& report);

// For std::ostream, or any class that takes texts like it.
template <class Stream>
Stream& operator<<(Stream& stream, const Report& report) {
  stream << to_string(report);
  return stream;
}

}  // namespace SOMA_NAMESPACE::testing

#ifndef SOMA_DISPATCH
#include <soma/testing/impl/report.ipp>
#endif
