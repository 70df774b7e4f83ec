#pragma once
// The functions of word_scanner.hpp.

#include <soma/text/byte_pairs/word_scanner.hpp>

#include <soma/text/byte_pairs/normal_text.hpp>
#include <soma/text/byte_pairs/unicode_classes.hpp>
#include <soma/text/utf8.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace SOMA_NAMESPACE::text::detail {

enum class CharacterClass : std::uint8_t {
  other,
  letter,
  number,
  digit,  // cut off by digits_gpt2, otherwise like `other`
  space,
  line_end,  // U+000A and U+000D, which are spaces, too
};

// A byte for each code point of the first planes; there is no letter, number or space beyond.
class CharacterClasses {
 public:
  CharacterClasses() {
    const auto add = [this](const auto& table, CharacterClass which) {
      for (const CodeRange& range : table)
        for (char32_t point = range.first; point <= range.last; ++point)
          classes_[point] = static_cast<std::uint8_t>(which);
    };
    add(letter_ranges, CharacterClass::letter);
    add(number_ranges, CharacterClass::number);
    add(more_digit_ranges, CharacterClass::digit);
    add(space_ranges, CharacterClass::space);
    classes_['\n'] = classes_['\r'] = static_cast<std::uint8_t>(CharacterClass::line_end);
  }

  CharacterClass of(char32_t point) const {
    return point < limit ? static_cast<CharacterClass>(classes_[point]) : CharacterClass::other;
  }

 private:
  static constexpr char32_t limit = 0x33480;
  std::array<std::uint8_t, limit> classes_{};
};

struct Character {
  CharacterClass kind = CharacterClass::other;
  std::uint32_t bytes = 0;  // 0: the text's end

  bool is_space() const {
    return kind == CharacterClass::space || kind == CharacterClass::line_end;
  }
  bool is_other() const {
    return bytes != 0 && (kind == CharacterClass::other || kind == CharacterClass::digit);
  }
};

class WordScanner {
 public:
  // `digits_apart`: each number and digit is a word, and a text ends before it.
  WordScanner(const CharacterClasses& classes, std::string_view text, bool digits_apart)
      : classes_(classes), text_(text), digits_apart_(digits_apart) {}

  Character at(std::size_t place) const {
    if (place >= text_.size()) return {};
    const auto byte = static_cast<unsigned char>(text_[place]);
    if (byte < 0x80) return {classes_.of(byte), 1};
    const CodePoint point = decode_utf8(text_, place);
    return {classes_.of(point.value), point.bytes};
  }

  // The end of the run of characters of that class.
  std::size_t run(std::size_t place, CharacterClass kind) const {
    for (Character next = at(place); next.bytes != 0 && next.kind == kind; next = at(place))
      place += next.bytes;
    return place;
  }
  std::size_t others(std::size_t place) const {
    for (Character next = at(place); next.is_other() && !is_apart(next); next = at(place))
      place += next.bytes;
    return place;
  }

  // The spaces from there on: all at the end of the text, otherwise all but the last. A single one
  // is a word.
  std::size_t spaces(std::size_t place) const {
    std::size_t last = place, end = place;
    Character next = at(end);
    for (; next.is_space(); next = at(end)) {
      last = end;
      end += next.bytes;
    }
    return next.bytes == 0 || is_apart(next) || last == place ? end : last;
  }

  // The end of a short form at an apostrophe; `place` if there is none. With `any_case` also in
  // capitals, where the long s (U+017F) is an s.
  std::size_t short_form(std::size_t place, bool any_case) const {
    const auto letter = [&](std::size_t i) {
      const char c = place + i < text_.size() ? text_[place + i] : '\0';
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    if (any_case && text_.substr(place + 1).starts_with("\xC5\xBF")) return place + 3;
    const char first = letter(1), second = letter(2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return place + 2;
    const bool two = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                     (first == 'l' && second == 'l');
    return two ? place + 3 : place;
  }

  std::size_t gpt2(std::size_t place) const {
    if (text_[place] == '\'')
      if (const std::size_t end = short_form(place, false); end != place) return end;
    const std::size_t begin = place + (text_[place] == ' ' ? 1 : 0);
    const Character first = at(begin);
    if (is_apart(first)) return begin == place ? begin + first.bytes : begin;
    if (first.is_other()) return others(begin);
    if (first.bytes == 0 || first.is_space()) return spaces(place);
    return run(begin, first.kind);
  }

  std::size_t qwen2(std::size_t place, std::size_t numbers) const {
    if (text_[place] == '\'')
      if (const std::size_t end = short_form(place, true); end != place) return end;
    const Character first = at(place), second = at(place + first.bytes);
    if (first.kind == CharacterClass::letter) return run(place, first.kind);
    if (first.kind == CharacterClass::number) {
      std::size_t end = place;
      for (Character next = first;
           numbers-- != 0 && next.kind == CharacterClass::number && next.bytes != 0; next = at(end))
        end += next.bytes;
      return end;
    }
    if (first.kind != CharacterClass::line_end && second.bytes != 0 &&
        second.kind == CharacterClass::letter)
      return run(place + first.bytes, second.kind);
    if (first.is_other() || (text_[place] == ' ' && second.is_other()))
      return run(others(place + first.bytes), CharacterClass::line_end);
    return line_ends_or_spaces(place);
  }

 private:
  // Spaces up to the last line end among them; without one as spaces().
  std::size_t line_ends_or_spaces(std::size_t place) const {
    std::size_t end = place, behind_line_end = place;
    for (Character next = at(end); next.is_space(); next = at(end)) {
      end += next.bytes;
      if (next.kind == CharacterClass::line_end) behind_line_end = end;
    }
    return behind_line_end != place ? behind_line_end : spaces(place);
  }

  bool is_apart(Character next) const {
    return digits_apart_ && next.bytes != 0 &&
           (next.kind == CharacterClass::number || next.kind == CharacterClass::digit);
  }

  const CharacterClasses& classes_;
  std::string_view text_;
  bool digits_apart_;
};

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE std::size_t word_end(WordPattern pattern, std::string_view text, std::size_t at) {
  static const detail::CharacterClasses classes;
  const detail::WordScanner scanner(classes, text, pattern == WordPattern::digits_gpt2);
  switch (pattern) {
    case WordPattern::gpt2:
    case WordPattern::digits_gpt2:
      return scanner.gpt2(at);
    case WordPattern::qwen2:
      return scanner.qwen2(at, 1);
    case WordPattern::llama3:
      return scanner.qwen2(at, 3);
    case WordPattern::marks:
      return (std::min)(text.find(space_mark, at + 1), text.size());
    case WordPattern::whole:
      break;
  }
  return text.size();
}

}  // namespace SOMA_NAMESPACE::text
