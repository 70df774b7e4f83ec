#pragma once
// The functions of xmc_reader.hpp.

#include <soma/text/xmc_reader.hpp>

#include <soma/base/number_text.hpp>
#include <soma/data/point_source.hpp>
#include <soma/text/record_reader.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text::detail {

SOMA_INLINE data::SparsePoints XmcReader::read() {
  Record line;
  points_.labels.offsets.push_back(0);
  for (bool first = true; lines_.next_any_line(line);) {
    line_ = line.line;
    if (line.problem)
      refuse(line.problem->given, line.problem->reason == error_id::text_row_too_long
                                      ? "at most that (max_line_bytes)"
                                      : line.problem->wanted);
    if (first && take_header(line.fields.front()))
      first = false;
    else if (add_line(line.fields.front()))
      first = false;
  }
  if (points_.count() == 0)
    fail(error_id::text_file_empty, operation, "file", soma::quoted(file_) + " without points",
         "at least one");
  finish();
  return std::move(points_);
}

SOMA_INLINE void XmcReader::refuse(std::string_view given, std::string_view wanted) const {
  fail(error_id::text_xmc_row, operation,
       "line " + std::to_string(line_) + " of " + soma::quoted(file_), given, wanted);
}

SOMA_INLINE std::string_view XmcReader::next_word(std::string_view& rest) {
  while (!rest.empty() && is_blank(rest.front())) rest.remove_prefix(1);
  std::size_t end = 0;
  while (end < rest.size() && !is_blank(rest[end])) ++end;
  const std::string_view word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

SOMA_INLINE bool XmcReader::whole(std::string_view text, std::uint64_t& number) {
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  return problem == std::errc() && end == text.data() + text.size() && !text.empty();
}

SOMA_INLINE std::string_view XmcReader::unsigned_of(std::string_view text) {
  const bool plus =
      text.size() > 1 && text[0] == '+' && ((text[1] >= '0' && text[1] <= '9') || text[1] == '.');
  return plus ? text.substr(1) : text;
}

SOMA_INLINE bool XmcReader::take_header(std::string_view line) {
  std::uint64_t numbers[3];
  std::string_view rest = line;
  for (std::uint64_t& number : numbers)
    if (!whole(next_word(rest), number)) return false;
  if (!next_word(rest).empty()) return false;
  has_header_ = true;
  claimed_points_ = numbers[0];
  const auto take = [&](std::string_view what, std::uint64_t claimed, std::size_t given) {
    if (claimed == 0 || claimed > most_ids)
      refuse_header(std::to_string(claimed).append(" ").append(what),
                    "1 to 2^31 (a line of three numbers is a header)");
    if (given != 0 && claimed > given)
      refuse_header(std::to_string(claimed).append(" ").append(what),
                    "at most " + std::to_string(given));
  };
  take("features", numbers[1], options_.features);
  take("labels", numbers[2], options_.classes);
  points_.features = options_.features != 0 ? options_.features : numbers[1];
  points_.classes = options_.classes != 0 ? options_.classes : numbers[2];
  return true;
}

SOMA_INLINE void XmcReader::refuse_header(std::string_view given, std::string_view wanted) const {
  fail(error_id::text_xmc_header, operation, "first line of " + soma::quoted(file_), given, wanted);
}

SOMA_INLINE bool XmcReader::add_line(std::string_view line) {
  const std::size_t comment = line.find('#');
  const std::string_view point = line.substr(0, comment);
  const bool blank = std::all_of(point.begin(), point.end(), is_blank);
  // A line of blanks alone is a point without labels and features; an empty one is none.
  if (point.empty() || (blank && comment != line.npos)) {
    if (!options_.blank_points) return false;
    ++blank_lines_;
  }
  add_point(point);
  return true;
}

SOMA_INLINE void XmcReader::add_point(std::string_view line) {
  const bool labelled = !line.empty() && !is_blank(line.front());
  std::string_view rest = line;
  std::string_view word = next_word(rest);
  labels_.clear();
  if (labelled && word.find(':') == word.npos) {
    add_labels(word);
    word = next_word(rest);
  }
  const std::size_t first = points_.ids.size();
  if (word.starts_with("qid:")) {
    ++queries_;
    word = next_word(rest);
  }
  for (; !word.empty(); word = next_word(rest)) add_feature(word);
  check_each_once(std::span(points_.ids).subspan(first), "feature");
  std::sort(labels_.begin(), labels_.end());
  check_each_once(labels_, "label");
  points_.offsets.push_back(points_.ids.size());
  points_.labels.add(labels_);
}

SOMA_INLINE std::int32_t XmcReader::id_of(std::string_view text, std::string_view what,
                                          std::uint64_t from, std::uint64_t limit) const {
  std::uint64_t number = 0;
  const std::uint64_t end = (limit == 0 ? most_ids : limit) + from;
  if (!whole(text, number) || number < from || number >= end)
    refuse(std::string(what).append(" ").append(soma::quoted(text)),
           std::to_string(from) + " to " + std::to_string(end - 1));
  return static_cast<std::int32_t>(number - from);
}

SOMA_INLINE void XmcReader::add_labels(std::string_view word) {
  const std::uint64_t limit = has_header_ ? points_.classes : options_.classes;
  for (std::size_t begin = 0; begin <= word.size();) {
    const std::size_t end = (std::min)(word.find(',', begin), word.size());
    labels_.push_back(id_of(unsigned_of(word.substr(begin, end - begin)), "label", 0, limit));
    most_label_ = (std::max)(most_label_, labels_.back());
    begin = end + 1;
  }
}

SOMA_INLINE void XmcReader::add_feature(std::string_view word) {
  const std::size_t colon = word.find(':');
  if (colon == word.npos) refuse(soma::quoted(word), "feature:value");
  const std::uint64_t limit = has_header_ ? points_.features : options_.features;
  points_.ids.push_back(id_of(word.substr(0, colon), "feature", options_.first_feature, limit));
  most_feature_ = (std::max)(most_feature_, points_.ids.back());
  const std::string_view text = unsigned_of(word.substr(colon + 1));
  float value = 0;
  const auto [end, problem] = number_from(text, value);
  if (problem != std::errc() || end != text.data() + text.size() || text.empty() ||
      !std::isfinite(value))
    refuse("value " + soma::quoted(text), "a finite number that fp32 holds");
  points_.values.push_back(value);
}

SOMA_INLINE void XmcReader::finish() {
  if (queries_ != 0 && options_.notes != nullptr)
    options_.notes->push_back("query numbers (qid:) of " + std::to_string(queries_) +
                              " points of " + soma::quoted(file_) + " are skipped");
  if (has_header_) {
    if (const std::uint64_t points = points_.count() - blank_lines_; claimed_points_ != points)
      refuse_header(std::to_string(claimed_points_) + " points",
                    std::to_string(points) + ", the number of points that follow");
    return;
  }
  points_.features =
      options_.features != 0 ? options_.features : static_cast<std::size_t>(most_feature_) + 1;
  points_.classes =
      options_.classes != 0 ? options_.classes : static_cast<std::size_t>(most_label_) + 1;
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE data::SparsePoints read_xmc(const std::string& file, const XmcOptions& options) {
  return detail::XmcReader(file, ByteSource::open("read_xmc", file), options).read();
}

SOMA_INLINE data::SparsePoints read_xmc_text(std::string_view text, const std::string& name,
                                             const XmcOptions& options) {
  return detail::XmcReader(name, ByteSource::of_memory("read_xmc", text), options).read();
}

}  // namespace SOMA_NAMESPACE::text
