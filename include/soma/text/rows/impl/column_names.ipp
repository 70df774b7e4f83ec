#pragma once
// The functions of column_names.hpp.

#include <soma/base/contains.hpp>
#include <soma/text/rows/column_names.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

SOMA_INLINE bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

}  // namespace SOMA_NAMESPACE::text

namespace SOMA_NAMESPACE::text::detail {

SOMA_INLINE std::string lower_name(std::string_view cell) {
  std::string name(trimmed(cell));
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return name;
}

SOMA_INLINE bool is_one_of(std::string_view name, Names names) { return contains(names, name); }

SOMA_INLINE std::vector<std::string> parts_of_name(std::string_view cell) {
  cell = trimmed(cell);
  std::vector<std::string> parts{{}};
  if (cell.find(' ') != std::string_view::npos) return {};
  const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (std::size_t i = 0; i < cell.size(); ++i) {
    const bool splits = cell[i] == '_' || cell[i] == '-' || cell[i] == '.';
    const bool begins = i > 0 && ((is_upper(cell[i]) && !is_upper(cell[i - 1])) ||
                                  (is_digit(cell[i]) && !is_digit(cell[i - 1])));
    if (splits || begins) parts.emplace_back();
    if (!splits) parts.back() += lower_name(cell.substr(i, 1));
  }
  return parts;
}

SOMA_INLINE bool is_usual_name(std::string_view cell, Names names, Names more, Names parts) {
  const std::string name = lower_name(cell);
  if (is_one_of(name, names) || is_one_of(name, more)) return true;
  const auto given = parts_of_name(cell);
  return std::any_of(given.begin(), given.end(),
                     [&](const std::string& part) { return is_one_of(part, parts); });
}

SOMA_INLINE bool is_text_name(std::string_view cell) {
  return is_usual_name(cell, text_names, more_text_names, text_parts);
}

SOMA_INLINE bool is_label_name(std::string_view cell) {
  return is_usual_name(cell, label_names, more_label_names, label_parts);
}

SOMA_INLINE std::optional<std::size_t> find_name(Fields fields, Names names) {
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (is_one_of(lower_name(fields[i]), names)) return i;
  return std::nullopt;
}

SOMA_INLINE std::optional<std::size_t> find_name(Fields fields, Names names, Names more) {
  const auto found = find_name(fields, names);
  return found ? found : find_name(fields, more);
}

}  // namespace SOMA_NAMESPACE::text::detail
