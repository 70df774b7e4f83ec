#pragma once
// The functions of unicode.hpp.

#include <soma/text/unicode.hpp>

#include <soma/text/unicode_decompositions.hpp>
#include <soma/text/unicode_tables.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace SOMA_NAMESPACE::text::detail {

enum class CodeFlag : std::uint8_t {
  space = 1,
  punctuation = 2,
  removed = 4,
  accent = 8,
  mark = 16,  // has a combining class
  upper = 32,
  decomposes = 64,
};

inline constexpr char32_t hangul_first = 0xAC00, hangul_last = 0xD7A3;

// The entry whose range may hold the code point; the end of the table if there is none.
template <class Entry, std::size_t Count>
const Entry* find_entry(const Entry (&table)[Count], char32_t point) {
  const auto* after =
      std::upper_bound(std::begin(table), std::end(table), point,
                       [](char32_t value, const Entry& entry) { return value < entry.first; });
  return after == std::begin(table) || point > std::prev(after)->last ? std::end(table)
                                                                      : std::prev(after);
}

// The properties of the first three planes; in others code points are only removed or accents. A
// byte for each code point is looked up faster than ranges.
class CodeFlags {
 public:
  CodeFlags() {
    const auto add = [this](const auto& table, CodeFlag flag) {
      for (const auto& entry : table)
        for (char32_t point = entry.first; point <= entry.last && point < limit; ++point)
          set(point, flag);
    };
    add(space_ranges, CodeFlag::space);
    add(punctuation_ranges, CodeFlag::punctuation);
    add(removed_ranges, CodeFlag::removed);
    add(accent_ranges, CodeFlag::accent);
    add(combining_classes, CodeFlag::mark);
    add(lower_cases, CodeFlag::upper);
    add(std::array{CodeRange{hangul_first, hangul_last}}, CodeFlag::decomposes);
    for (const Decomposition& entry : decompositions) set(entry.point, CodeFlag::decomposes);
  }

  bool has(char32_t point, CodeFlag flag) const {
    if (point < limit) return (flags_[point] & static_cast<unsigned>(flag)) != 0;
    if (flag == CodeFlag::removed)
      return find_entry(removed_ranges, point) != std::end(removed_ranges);
    return flag == CodeFlag::accent && find_entry(accent_ranges, point) != std::end(accent_ranges);
  }

 private:
  static constexpr char32_t limit = 0x30000;

  void set(char32_t point, CodeFlag flag) {
    flags_[point] = static_cast<std::uint8_t>(flags_[point] | static_cast<unsigned>(flag));
  }

  std::array<std::uint8_t, limit> flags_{};
};

// Made at the first call.
SOMA_INLINE bool has_flag(char32_t point, CodeFlag flag) {
  static const CodeFlags all;
  return all.has(point, flag);
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE bool is_whitespace(char32_t point) {
  return detail::has_flag(point, detail::CodeFlag::space);
}

SOMA_INLINE bool is_punctuation(char32_t point) {
  return detail::has_flag(point, detail::CodeFlag::punctuation);
}

SOMA_INLINE bool is_removed_by_cleaning(char32_t point) {
  return detail::has_flag(point, detail::CodeFlag::removed);
}

SOMA_INLINE bool is_chinese(char32_t point) {
  const auto within = [&](char32_t low, char32_t high) { return point >= low && point <= high; };
  if (point < 0x3400) return false;
  return within(0x4E00, 0x9FFF) || within(0x3400, 0x4DBF) || within(0x20000, 0x2A6DF) ||
         within(0x2A700, 0x2B81F) || within(0x2B920, 0x2CEAF) || within(0xF900, 0xFAFF) ||
         within(0x2F800, 0x2FA1F);
}

SOMA_INLINE bool is_accent(char32_t point) {
  return detail::has_flag(point, detail::CodeFlag::accent);
}

SOMA_INLINE unsigned combining_class(char32_t point) {
  if (!detail::has_flag(point, detail::CodeFlag::mark)) return 0;
  return detail::find_entry(detail::combining_classes, point)->value;
}

SOMA_INLINE std::size_t decompose(char32_t point, char32_t (&parts)[8]) {
  parts[0] = point;
  if (!detail::has_flag(point, detail::CodeFlag::decomposes)) return 1;
  if (point >= detail::hangul_first && point <= detail::hangul_last) {
    // The Unicode Standard, 3.12: 19 consonants, 21 vowels, 27 consonants or none.
    const char32_t syllable = point - detail::hangul_first;
    parts[0] = 0x1100 + syllable / (21 * 28);
    parts[1] = 0x1161 + syllable / 28 % 21;
    parts[2] = 0x11A7 + syllable % 28;
    return syllable % 28 == 0 ? 2 : 3;
  }
  const auto* found = std::lower_bound(
      std::begin(detail::decompositions), std::end(detail::decompositions), point,
      [](const detail::Decomposition& entry, char32_t value) { return entry.point < value; });
  std::size_t count = 0;
  for (; count < std::size(found->parts) && found->parts[count] != 0; ++count)
    parts[count] = found->parts[count];
  return count;
}

SOMA_INLINE char32_t lower(char32_t point) {
  if (!detail::has_flag(point, detail::CodeFlag::upper)) return point;
  const auto* entry = detail::find_entry(detail::lower_cases, point);
  if ((point - entry->first) % entry->step != 0) return point;
  return static_cast<char32_t>(static_cast<std::int32_t>(point) + entry->difference);
}

}  // namespace SOMA_NAMESPACE::text
