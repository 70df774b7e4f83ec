#pragma once
// Words of a text as byte-level tokenizers cut them, without a regular expression: each pattern is
// a scan that looks one code point ahead.
//
//   gpt2    's 't 're 've 'm 'll 'd | space? letters | space? numbers | space? others | spaces
//   qwen2   the same in any case | one other? letters | one number | space? others and line ends |
//           spaces up to a line end | spaces
//   llama3  as qwen2, with up to three numbers
//
// The last of several spaces before a word goes to the next word, at the end of a text all stay
// together. Letters and numbers are Unicode's general categories L and N; spaces its white space.

#include <soma/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace SOMA_NAMESPACE::text {

enum class WordPattern : std::uint8_t {
  gpt2,
  digits_gpt2,  // each digit is a word, and a text ends before it (SmolLM)
  qwen2,
  llama3,
  marks,  // a word begins with each U+2581, which stands for a space (sentencepiece)
  whole,  // the text is one word
};

// The end of the word that begins at `at`, which is less than text.size(). The text is valid UTF-8.
// Linear in the word's bytes.
std::size_t word_end(WordPattern pattern, std::string_view text, std::size_t at);

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/byte_pairs/impl/word_scanner.ipp>
#endif
