// Checks of numbers on the command line. For units that include CLI11.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

// CLI::Range accepts NaN.
inline CLI::Validator between(double least, double most) {
  const auto problem = [=](const std::string& text) -> std::string {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    if (!text.empty() && end == text.c_str() + text.size() && value >= least && value <= most)
      return {};
    std::ostringstream message;
    message << "Value " << text << " not in range [" << least << " - " << most << ']';
    return message.str();
  };
  return CLI::Validator(problem, "");
}

// Whole numbers whose bounds the user need not know. As everywhere in CLI11, 0x10 is 16.
inline CLI::Validator count_from(std::uint64_t least, std::uint64_t most) {
  const auto problem = [=](const std::string& text) -> std::string {
    char* end = nullptr;
    const std::uint64_t value = std::strtoull(text.c_str(), &end, 0);
    if (!text.empty() && end == text.c_str() + text.size() && value >= least && value <= most)
      return {};
    return "Value " + text + " is no whole number from " + std::to_string(least) +
           (text.size() < 19 ? "" : " to " + std::to_string(most));
  };
  return CLI::Validator(problem, "");
}
