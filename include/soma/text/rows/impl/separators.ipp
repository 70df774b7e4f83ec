#pragma once
// The functions of separators.hpp.

#include <soma/text/rows/separators.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE char evident_separator(std::string_view text, bool whole, char own, bool quotes) {
  constexpr std::array<char, 4> known = {'\t', ',', ';', '|'};
  constexpr std::size_t most_records = 100;
  std::array<std::size_t, known.size()> first{}, counts{}, same{};
  std::size_t records = 0;
  bool inside = false, empty = true;
  const auto end_record = [&] {
    if (!empty) {
      if (records == 0) first = counts;
      for (std::size_t i = 0; i < known.size(); ++i)
        if (counts[i] != 0 && counts[i] == first[i]) ++same[i];
      ++records;
    }
    counts = {};
    empty = true;
  };
  for (const char c : text) {
    if (records == most_records) break;
    if (c == '\n' && !inside) {
      end_record();
      continue;
    }
    if (c == '"' && quotes) inside = !inside;
    empty = empty && c == '\r';
    for (std::size_t i = 0; i < known.size(); ++i)
      if (!inside && c == known[i]) ++counts[i];
  }
  if (whole && records < most_records) end_record();
  if (records == 0) return 0;
  for (std::size_t i = 0; i < known.size(); ++i)
    if (known[i] == own && 2 * same[i] >= records) return 0;
  for (std::size_t i = 0; i < known.size(); ++i)
    if (known[i] != own && same[i] == records) return known[i];
  return 0;
}

}  // namespace SOMA_NAMESPACE::text
