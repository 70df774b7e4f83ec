#pragma once
// ComposedText: the normal form C of Unicode, which some byte-level tokenizers read (Qwen2), and the
// way back to the bytes of the text.

#include <soma/text/word_splitter.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

class ComposedText {
 public:
  // Linear but for marks behind one letter, which are sorted. `text` is valid UTF-8 and must outlive
  // the object, which copies it only if something changes.
  explicit ComposedText(std::string_view text);

  std::string_view view() const { return changes_.empty() ? source_ : composed_; }

  // The bytes of the text that became these bytes of view(). A part of a composed character stands
  // for all of its source.
  Span source_of(Span bytes) const;

 private:
  struct Change {
    Span composed, source;
  };

  std::string_view source_;
  std::string composed_;
  std::vector<Change> changes_;
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/byte_pairs/impl/composed_text.ipp>
#endif
