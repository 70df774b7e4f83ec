#pragma once
// Reports and progress as text.

#include <soma/base/fixed.hpp>
#include <soma/train/events.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

namespace detail {

// "1.23k", "45.6M": three digits.
std::string short_number(double value);

// "1h 02m", "3m 07s", "12s".
std::string duration(double seconds);

// A model that always predicts the most frequent class may have a good accuracy.
std::string one_class_only(const metrics::Classification& metrics);

std::string title_of(std::string_view metric, const metrics::Values& values);

std::string bytes(std::uint64_t count);

}  // namespace detail

// The results and costs of a run: names and values in the order of the table.
std::vector<std::pair<std::string, std::string>> report_lines(const Report& report);

// The table of report_lines(), followed by the table of a pipeline's stages, ending with a newline.
std::string to_string(const Report& report);

template <class Stream>
requires requires(Stream& stream, const std::string& text) { stream << text; }
Stream& operator<<(Stream& stream, const Report& report) {
  stream << to_string(report);
  return stream;
}

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/report.ipp>
#endif
