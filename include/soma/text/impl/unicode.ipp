#pragma once
// The functions of unicode.hpp.

#include <soma/text/unicode.hpp>

#include <utf8proc.h>

#include <cstddef>

namespace SOMA_NAMESPACE::text::detail {

SOMA_INLINE utf8proc_category_t category(char32_t point) {
  switch (point) {
    case 0x166D:   // Canadian syllabics chi sign: a symbol since Unicode 12
    case 0x111C9:  // Sharada sandhi mark: a mark since Unicode 11
      return UTF8PROC_CATEGORY_PO;
    case 0x1734:  // Hanunoo sign pamudpod: spacing since Unicode 14
      return UTF8PROC_CATEGORY_MN;
    case 0x1885:  // Mongolian letters ali gali baluda: marks since Unicode 9
    case 0x1886:
      return UTF8PROC_CATEGORY_LO;
    case 0xA9BD:  // Javanese consonant sign keret: not spacing since Unicode 11
      return UTF8PROC_CATEGORY_MC;
    default:
      return utf8proc_category(static_cast<utf8proc_int32_t>(point));
  }
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE bool is_whitespace(char32_t point) {
  if (point < 0x80) return point == ' ' || (point >= 9 && point <= 13);
  const auto category = detail::category(point);
  return point == 0x85 || category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

SOMA_INLINE bool is_punctuation(char32_t point) {
  if (point < 0x80)
    return (point >= 33 && point <= 47) || (point >= 58 && point <= 64) ||
           (point >= 91 && point <= 96) || (point >= 123 && point <= 126);
  const auto category = detail::category(point);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

SOMA_INLINE bool is_removed_by_cleaning(char32_t point) {
  if (point == '\t' || point == '\n' || point == '\r') return false;
  if (point < 0x80) return point < 0x20 || point == 0x7F;
  const auto category = detail::category(point);
  return point == 0xFFFD || category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CO;
}

SOMA_INLINE bool is_chinese(char32_t point) {
  const auto within = [&](char32_t low, char32_t high) { return point >= low && point <= high; };
  if (point < 0x3400) return false;
  return within(0x4E00, 0x9FFF) || within(0x3400, 0x4DBF) || within(0x20000, 0x2A6DF) ||
         within(0x2A700, 0x2B81F) || within(0x2B920, 0x2CEAF) || within(0xF900, 0xFAFF) ||
         within(0x2F800, 0x2FA1F);
}

SOMA_INLINE bool is_accent(char32_t point) {
  return detail::category(point) == UTF8PROC_CATEGORY_MN;
}

SOMA_INLINE unsigned combining_class(char32_t point) {
  return static_cast<unsigned>(
      utf8proc_get_property(static_cast<utf8proc_int32_t>(point))->combining_class);
}

SOMA_INLINE std::size_t decompose(char32_t point, char32_t (&parts)[8]) {
  utf8proc_int32_t found[8];
  int boundary = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(point), found, 8,
                                             UTF8PROC_DECOMPOSE, &boundary);
  if (count < 1 || count > 8) {
    parts[0] = point;
    return 1;
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    parts[i] = static_cast<char32_t>(found[i]);
  return static_cast<std::size_t>(count);
}

SOMA_INLINE char32_t lower(char32_t point) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(point)));
}

}  // namespace SOMA_NAMESPACE::text
