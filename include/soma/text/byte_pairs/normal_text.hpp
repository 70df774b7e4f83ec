#pragma once
// NormalText: a text as a byte-level tokenizer reads it, and the way back to its bytes.

#include <soma/text/word_splitter.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

inline constexpr std::string_view space_mark = "\xE2\x96\x81";  // U+2581, for a space

struct Normalization {
  bool compose = false;  // the normal form C of Unicode (Qwen2)
  bool marks = false;    // U+2581 for each space (sentencepiece)
  bool prepend = false;  // one more mark at the beginning, unless the text is empty
  // The mark at the beginning is left out where the text begins with a space.
  bool prepend_once = false;
};

class NormalText {
 public:
  // Invalid UTF-8 becomes U+FFFD, as decode_utf8 reads it. Linear but for marks behind one letter,
  // which are sorted. `text` must outlive the object, which copies it only if something changes.
  NormalText(std::string_view text, const Normalization& rules);

  std::string_view view() const;
  std::size_t replaced() const { return replaced_; }  // invalid sequences

  // The bytes of the text that became these bytes of view(). A part of a changed character stands
  // for all of its source.
  Span source_of(Span bytes) const;

 private:
  struct Change {
    Span normal, source;
  };

  void change(Span source, std::string_view made);
  // The end of the characters from there on that are composed together; appends what changes.
  std::size_t compose(std::size_t begin, std::size_t at, std::string& made);

  std::string_view source_;
  std::string normal_;
  std::vector<Change> changes_;
  std::size_t copied_ = 0, replaced_ = 0;  // copied_: bytes of the source that normal_ has
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/byte_pairs/impl/normal_text.ipp>
#endif
