// Numbers on the command line, their checks, and the groups of options that programs share. For
// units that include CLI11.
#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
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

inline const CLI::Validator any_count =
    count_from(0, (std::numeric_limits<std::uint64_t>::max)() / 2);
inline const CLI::Range some(std::size_t{1}, std::size_t{1} << 24);

// The headings of options in a help text.
inline const std::string model_group = "Model", loop_group = "Training",
                         output_group = "What is written", compute_group = "Computation";

// A whole number, or a size, whose default is shown.
template <class Value>
CLI::Option* add_number(CLI::App& command, const char* name, Value& value, const char* help,
                        const std::string& group, const CLI::Validator& range) {
  return command.add_option(name, value, help)
      ->check(range)
      ->capture_default_str()
      ->type_name("N")
      ->group(group);
}

// A number with a point. Its help says what the default is.
template <class Value>
CLI::Option* add_real(CLI::App& command, const char* name, Value& value, const char* help,
                      double least, double most, const std::string& group = loop_group) {
  return command.add_option(name, value, help)
      ->check(between(least, most))
      ->type_name("X")
      ->group(group);
}
