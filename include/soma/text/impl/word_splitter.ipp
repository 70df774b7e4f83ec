#pragma once
// The functions of word_splitter.hpp.

#include <soma/text/word_splitter.hpp>

#include <soma/text/unicode.hpp>
#include <soma/text/utf8.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE bool SplitOptions::strips_accents() const { return strip_accents.value_or(lowercase); }

SOMA_INLINE SplitRules::SplitRules(const SplitOptions& options)
    : options_(options), strips_accents_(options.strips_accents()) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    kinds_[byte] = kind_of(byte);
    const bool upper = options.lowercase && byte >= 'A' && byte <= 'Z';
    folded_[byte] = static_cast<char>(upper ? byte + 32 : byte);
  }
}

SOMA_INLINE auto SplitRules::kind(char byte) const -> Kind {
  return kinds_[static_cast<unsigned char>(byte)];
}

SOMA_INLINE char SplitRules::folded(char byte) const {
  return folded_[static_cast<unsigned char>(byte)];
}

SOMA_INLINE auto SplitRules::kind_of(unsigned byte) const -> Kind {
  if (byte >= 0x80) return Kind::beyond_ascii;
  if (options_.clean_text && is_removed_by_cleaning(byte)) return Kind::removed;
  if (is_whitespace(byte)) return Kind::space;
  return is_punctuation(byte) ? Kind::punctuation : Kind::letter;
}

SOMA_INLINE std::size_t WordSplitter::append_letters(std::string_view text, std::size_t at) {
  sort_marks();
  const std::size_t begin = at;
  do {
    if (chars_ + (at - begin) < options_.max_word_chars) {
      word_.push_back(rules_->folded(text[at]));
      if (spans_) sources_.push_back({at, at + 1});
    }
    ++at;
  } while (at < text.size() && rules_->kind(text[at]) == Kind::letter);
  if (chars_ == 0) begin_ = begin;
  chars_ += at - begin;
  end_ = at;
  return at;
}

SOMA_INLINE void WordSplitter::append(char32_t point, Span source) {
  if (chars_ == 0) begin_ = source.begin;
  ++chars_;
  end_ = source.end;
  if (chars_ > options_.max_word_chars) return;
  append_utf8(word_, point);
  if (spans_) sources_.resize(word_.size(), source);
}

SOMA_INLINE void WordSplitter::sort_marks() {
  if (marks_.empty()) return;
  if (std::any_of(marks_.begin(), marks_.end(), [](const Mark& mark) { return mark.kept; })) {
    std::vector<Mark> sorted = marks_;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Mark& a, const Mark& b) { return a.order < b.order; });
    Span source = starter_;
    auto next = marks_.begin();
    for (const Mark& mark : sorted) {
      if (!mark.part) {
        while (next->part) ++next;
        source = (next++)->source;
      }
      if (mark.kept) append(options_.lowercase ? lower(mark.point) : mark.point, source);
    }
  }
  marks_.clear();
}

SOMA_INLINE void WordSplitter::clear() {
  word_.clear();
  sources_.clear();
  marks_.clear();
  chars_ = 0;
}

}  // namespace SOMA_NAMESPACE::text
