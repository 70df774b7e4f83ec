#pragma once
// The functions of normal_text.hpp. Characters are composed as in The Unicode Standard, 3.11.

#include <soma/text/byte_pairs/normal_text.hpp>

#include <soma/text/byte_pairs/unicode_classes.hpp>
#include <soma/text/unicode.hpp>
#include <soma/text/unicode_decompositions.hpp>
#include <soma/text/utf8.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text::detail {

// Which two code points make one.
class Compositions {
 public:
  Compositions() {
    // A decomposition of three or four begins with that of another character: shorter ones first.
    for (std::size_t length = 2; length <= std::size(Decomposition{}.parts); ++length)
      for (const Decomposition& entry : decompositions) {
        const auto* end = std::find(std::begin(entry.parts), std::end(entry.parts), char32_t{0});
        if (static_cast<std::size_t>(end - entry.parts) != length || is_uncomposed(entry.point))
          continue;
        char32_t first = entry.parts[0];
        for (const char32_t* part = entry.parts + 1; part + 1 != end && first != 0; ++part)
          first = pair(first, *part);
        if (first == 0) continue;
        pairs_.emplace(key(first, end[-1]), entry.point);
        seconds_.insert(end[-1]);
      }
  }

  // 0: they stay two.
  char32_t pair(char32_t first, char32_t second) const {
    // The Unicode Standard, 3.12.
    if (is_consonant(first) && second >= 0x1161 && second < 0x1161 + 21)
      return 0xAC00 + ((first - 0x1100) * 21 + (second - 0x1161)) * 28;
    if (first >= 0xAC00 && first <= 0xD7A3 && (first - 0xAC00) % 28 == 0 && second > 0x11A7 &&
        second < 0x11A7 + 28)
      return first + (second - 0x11A7);
    const auto found = pairs_.find(key(first, second));
    return found == pairs_.end() ? 0 : found->second;
  }

  // True if nothing before the character or behind it changes what is before it.
  bool begins_anew(char32_t point) const {
    if (point < 0x300) return true;
    const bool hangul_part =
        (point >= 0x1161 && point < 0x1161 + 21) || (point > 0x11A7 && point < 0x11A7 + 28);
    return combining_class(point) == 0 && !hangul_part && !seconds_.contains(point) &&
           !is_uncomposed(point);
  }

 private:
  static bool is_uncomposed(char32_t point) {
    const auto* after = std::upper_bound(
        std::begin(uncomposed_ranges), std::end(uncomposed_ranges), point,
        [](char32_t value, const CodeRange& range) { return value < range.first; });
    return after != std::begin(uncomposed_ranges) && point <= std::prev(after)->last;
  }
  static bool is_consonant(char32_t point) { return point >= 0x1100 && point < 0x1100 + 19; }
  static std::uint64_t key(char32_t first, char32_t second) {
    return std::uint64_t{first} << 32 | second;
  }

  std::unordered_map<std::uint64_t, char32_t> pairs_;
  std::unordered_set<char32_t> seconds_;
};

SOMA_INLINE const Compositions& compositions() {
  static const Compositions all;
  return all;
}

// Appends the composed form of characters of which only the first begins anew.
SOMA_INLINE void append_composed(std::string_view cluster, std::string& target) {
  struct Mark {
    char32_t point;
    unsigned rank;
  };
  std::vector<Mark> points;
  for (std::size_t at = 0; at < cluster.size();) {
    const CodePoint next = decode_utf8(cluster, at);
    char32_t parts[8];
    const std::size_t count = decompose(next.value, parts);
    for (std::size_t i = 0; i < count; ++i) points.push_back({parts[i], combining_class(parts[i])});
    at += next.bytes;
  }
  const auto is_starter = [](const Mark& mark) { return mark.rank == 0; };
  for (auto begin = points.begin(); begin != points.end();) {
    begin = std::find_if_not(begin, points.end(), is_starter);
    const auto end = std::find_if(begin, points.end(), is_starter);
    std::stable_sort(begin, end, [](const Mark& a, const Mark& b) { return a.rank < b.rank; });
    begin = end;
  }
  // A mark is blocked from the last starter if another of its rank or higher stands between them.
  std::size_t kept = 0, starter = points.size();
  unsigned before = 0;
  for (const Mark& next : points) {
    const bool adjacent = starter + 1 == kept;
    if (starter < kept && (adjacent || before < next.rank)) {
      if (const char32_t made = compositions().pair(points[starter].point, next.point); made != 0) {
        points[starter].point = made;
        continue;
      }
    }
    if (next.rank == 0) starter = kept;
    before = next.rank;
    points[kept++] = next;
  }
  for (std::size_t i = 0; i < kept; ++i) append_utf8(target, points[i].point);
}

}  // namespace SOMA_NAMESPACE::text::detail

namespace SOMA_NAMESPACE::text {

SOMA_INLINE NormalText::NormalText(std::string_view text, const Normalization& rules)
    : source_(text) {
  const bool begins_with_space = text.starts_with(' ') || text.starts_with(space_mark);
  if (rules.prepend && !text.empty() && !(rules.prepend_once && begins_with_space))
    change({0, 0}, space_mark);
  std::string made;
  std::size_t anew = 0;  // the last character that begins anew
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at]);
    if (lead < 0x80) {
      const bool is_mark = lead == ' ' && rules.marks;
      if (is_mark) change({at, at + 1}, space_mark);
      anew = is_mark ? at + 1 : at;
      ++at;
      continue;
    }
    const CodePoint point = decode_utf8(text, at);
    if (!point.valid) {
      change({at, at + point.bytes}, "\xEF\xBF\xBD");
      ++replaced_;
      at += point.bytes;
      anew = at;
    } else if (!rules.compose || point.value < 0x300 ||
               detail::compositions().begins_anew(point.value)) {
      anew = at;
      at += point.bytes;
    } else {
      at = compose(anew, at, made);
      anew = at;
    }
  }
  if (!changes_.empty()) normal_.append(text, copied_);
}

SOMA_INLINE std::string_view NormalText::view() const {
  return changes_.empty() ? source_ : normal_;
}

SOMA_INLINE void NormalText::change(Span source, std::string_view made) {
  normal_.append(source_, copied_, source.begin - copied_);
  changes_.push_back({{normal_.size(), normal_.size() + made.size()}, source});
  normal_ += made;
  copied_ = source.end;
}

SOMA_INLINE std::size_t NormalText::compose(std::size_t begin, std::size_t at, std::string& made) {
  while (at < source_.size()) {
    const CodePoint next = decode_utf8(source_, at);
    if (!next.valid || detail::compositions().begins_anew(next.value)) break;
    at += next.bytes;
  }
  made.clear();
  const std::string_view cluster = source_.substr(begin, at - begin);
  detail::append_composed(cluster, made);
  if (made != cluster) change({begin, at}, made);
  return at;
}

SOMA_INLINE Span NormalText::source_of(Span bytes) const {
  // A place that no change covers lies as far behind the last change as in the text.
  const auto source_at = [&](std::size_t place, bool is_end) {
    const auto after =
        std::partition_point(changes_.begin(), changes_.end(), [&](const Change& change) {
          return is_end ? change.normal.begin < place : change.normal.begin <= place;
        });
    if (after == changes_.begin()) return place;
    const Change& change = *std::prev(after);
    const bool inside = is_end ? place <= change.normal.end : place < change.normal.end;
    if (inside) return is_end ? change.source.end : change.source.begin;
    return place - change.normal.end + change.source.end;
  };
  const std::size_t begin = source_at(bytes.begin, false);
  return {begin, bytes.end == bytes.begin ? begin : source_at(bytes.end, true)};
}

}  // namespace SOMA_NAMESPACE::text
