#pragma once
// Numbers and names in the clock's texts, the same on every host and in every locale.

#include <soma/base/fixed.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore::detail {

std::string percent(double share);
std::string microseconds(double ns);

// Nanoseconds as a trace's microseconds. They are rounded to whole nanoseconds, so that slices that
// do not overlap stay apart after rounding.
std::int64_t whole_ns(double ns);
std::string trace_time(std::int64_t ns);

std::string right(std::string_view text, std::size_t width);
// Cut at the left: the end names the innermost region and the line's number.
std::string left(std::string_view text, std::size_t width);

// The length of the UTF-8 sequence that begins there; 0 if there is none. Names come from programs.
std::size_t utf8_length(std::string_view text);

// JSON, written from left to right. Strings may stand in an HTML script: "<" is escaped.
class JsonWriter {
 public:
  JsonWriter& begin(char bracket);
  JsonWriter& end(char bracket);
  JsonWriter& key(std::string_view name);
  JsonWriter& string(std::string_view value);
  // Writes a number, or another value that already is JSON.
  JsonWriter& raw(std::string_view value);
  JsonWriter& number(double value, int digits);
  JsonWriter& number(std::uint64_t value);
  std::string take();
  std::size_t size() const;

 private:
  void separate();
  std::string text_;
  bool first_ = true;
};

}  // namespace SOMA_NAMESPACE::neuroncore::detail

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/clock/impl/text_parts.ipp>
#endif
