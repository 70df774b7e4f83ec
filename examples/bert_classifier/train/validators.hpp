// Checks of numbers on the command line.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>

// Replaces CLI::Range, which accepts NaN.
inline CLI::Validator between(double least, double most) {
  const auto problem = [=](const std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return {};
    return "Value " + text + " not in range [" + CLI::detail::to_string(least) + " - " +
           CLI::detail::to_string(most) + "]";
  };
  return CLI::Validator(problem, "");
}

// Whole numbers; help texts do not show these bounds.
inline CLI::Validator count_from(std::uint64_t least, std::uint64_t most) {
  const auto problem = [=](const std::string& text) -> std::string {
    std::uint64_t value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return {};
    return "Value " + text + " is no whole number from " + std::to_string(least) +
           (text.size() < 19 ? "" : " to " + std::to_string(most));
  };
  return CLI::Validator(problem, "");
}
