#pragma once
// WordSplitter: the words of a text as in BERT. It cleans, separates ideographs, strips accents,
// folds case, and cuts at spaces and around punctuation, in one pass over the bytes.

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

// Bytes of a text, from begin up to end.
struct Span {
  std::size_t begin = 0, end = 0;
  friend bool operator==(Span, Span) = default;
};

// The defaults are those of an uncased BERT.
struct SplitOptions {
  bool lowercase = true;
  std::optional<bool> strip_accents = {};  // not given: as lowercase
  bool chinese_chars = true;               // each ideograph is a word
  bool clean_text = true;                  // without control characters; every space is ' '
  std::size_t max_word_chars = 100;        // longer words are not looked at

  bool strips_accents() const;
  friend bool operator==(const SplitOptions&, const SplitOptions&) = default;
};

// Valid during a function's call: `text` and `sources` belong to the splitter.
struct Word {
  std::string_view text;  // empty if it is too long
  bool too_long = false;
  Span source;          // where it stands
  const Span* sources;  // where each byte of `text` comes from, or null
};

// The options, and the treatment of each ASCII character that follows from them.
class SplitRules {
 public:
  enum class Kind : std::uint8_t { letter, space, punctuation, removed, beyond_ascii };

  explicit SplitRules(const SplitOptions& options);

  const SplitOptions& options() const { return options_; }
  bool strips_accents() const { return strips_accents_; }
  Kind kind(char byte) const;
  char folded(char byte) const;

 private:
  Kind kind_of(unsigned byte) const;

  SplitOptions options_;
  bool strips_accents_;
  std::array<Kind, 256> kinds_{};
  std::array<char, 256> folded_{};
};

// Cheap to make and to reuse; one thread at a time.
class WordSplitter {
 public:
  // `rules` must outlive the splitter. `spans`: true to record the source of each byte of a word,
  // which costs time.
  explicit WordSplitter(const SplitRules& rules, bool spans = false)
      : rules_(&rules), options_(rules.options()), spans_(spans) {}

  // Calls function(const Word&) for each word of text[begin, end), in order, until it returns
  // false. Returns the number of invalid sequences in the text that was read.
  template <class Function>
  std::size_t split(std::string_view text, Span range, Function&& function) {
    text = text.substr(0, range.end);
    std::size_t replaced = 0;
    clear();
    for (std::size_t at = range.begin; at < text.size();) {
      const char byte = text[at];
      switch (rules_->kind(byte)) {
        case Kind::letter:
          // By far the most common case, so it has a loop of its own.
          at = append_letters(text, at);
          break;
        case Kind::removed:
          ++at;
          break;
        case Kind::space:
          ++at;
          if (!finish(function)) return replaced;
          break;
        case Kind::punctuation:
          ++at;
          if (!alone(static_cast<unsigned char>(byte), {at - 1, at}, function)) return replaced;
          break;
        case Kind::beyond_ascii: {
          const CodePoint point = decode_utf8(text, at);
          replaced += point.valid ? 0 : 1;
          if (!take(point.value, {at, at + point.bytes}, function)) return replaced;
          at += point.bytes;
          break;
        }
      }
    }
    finish(function);
    return replaced;
  }

 private:
  using Kind = SplitRules::Kind;

  std::size_t append_letters(std::string_view text, std::size_t at);

  // A code point of the text, beyond ASCII.
  template <class Function>
  bool take(char32_t point, Span source, Function&& function) {
    if (options_.clean_text) {
      if (is_removed_by_cleaning(point)) return true;
      if (is_whitespace(point)) return finish(function);
    }
    if (!options_.chinese_chars || !is_chinese(point)) return take_parts(point, source, function);
    return finish(function) && take_parts(point, source, function) && finish(function);
  }

  template <class Function>
  bool take_parts(char32_t point, Span source, Function&& function) {
    if (!rules_->strips_accents()) return take_folded(point, source, function);
    char32_t parts[8];
    const std::size_t count = decompose(point, parts);
    for (std::size_t i = 0; i < count; ++i) {
      const unsigned order = combining_class(parts[i]);
      const bool kept = !is_accent(parts[i]);
      if (order != 0) {
        marks_.push_back({order, parts[i], source, i > 0, kept});
        continue;
      }
      // An accent of class 0 also ends a run of marks, though it is removed.
      sort_marks();
      starter_ = source;
      if (kept && !take_folded(parts[i], source, function)) return false;
    }
    return true;
  }

  template <class Function>
  bool take_folded(char32_t point, Span source, Function&& function) {
    constexpr char32_t dotted_i = 0x130, dot_above = 0x307;
    if (options_.lowercase && point == dotted_i) {
      append('i', source);
      append(dot_above, source);
      return true;
    }
    if (options_.lowercase) point = lower(point);
    if (is_whitespace(point)) return finish(function);
    if (is_punctuation(point)) return alone(point, source, function);
    append(point, source);
    return true;
  }

  void append(char32_t point, Span source);

  // Marks that are kept follow their letter in canonical order. Their sources are as in the
  // reference: the first mark in the new order gets the source of the former first mark, and so on;
  // parts of a decomposition get the source of the part before them.
  void sort_marks();

  // Ends the word, if there is one.
  template <class Function>
  bool finish(Function&& function) {
    sort_marks();
    if (chars_ == 0) return true;
    const bool too_long = chars_ > options_.max_word_chars;
    const Word word{.text = too_long ? std::string_view() : std::string_view(word_),
                    .too_long = too_long,
                    .source = {begin_, end_},
                    .sources = spans_ && !too_long ? sources_.data() : nullptr};
    const bool more = function(word);
    clear();
    return more;
  }
  // A word of one code point.
  template <class Function>
  bool alone(char32_t point, Span source, Function&& function) {
    if (!finish(function)) return false;
    append(point, source);
    return finish(function);
  }

  void clear();

  struct Mark {
    unsigned order;
    char32_t point;
    Span source;
    bool part;  // true: comes from a decomposition, but is not its first code point
    bool kept;  // no accent
  };

  const SplitRules* rules_;
  SplitOptions options_;
  bool spans_;
  std::string word_;
  std::vector<Span> sources_;  // the source of each byte of word_
  std::vector<Mark> marks_;    // wait for the end of their run
  Span starter_;               // the character before the run of marks
  std::size_t chars_ = 0, begin_ = 0, end_ = 0;
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/word_splitter.ipp>
#endif
