#pragma once
// Properties of code points that BERT's tokenizer uses, as the tokenizers package has them: marks
// and punctuation of Unicode 8, decompositions and letters of later versions. A script reads them
// from the package (tests/text/unicode_tables.py), so tokens depend on no library of the machine.

#include <soma/base/config.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE::text {

bool is_whitespace(char32_t point);

// The package's punctuation, and every ASCII character that is neither letter nor digit nor space:
// in Unicode "$" and "~" are not punctuation.
bool is_punctuation(char32_t point);

// Characters that cleaning removes: control and format characters, private use, and the replacement
// character.
bool is_removed_by_cleaning(char32_t point);

// Ideographs, each of which is a word; Hangul, Hiragana and Katakana are not included. The blocks
// are the tokenizers package's, with its gap at U+2B820 to U+2B91F, which the first BERT did not
// have.
bool is_chinese(char32_t point);

// An accent or another mark without width.
bool is_accent(char32_t point);

// 0: the code point begins a new cluster. Otherwise: its sorting rank among the marks of its
// cluster.
unsigned combining_class(char32_t point);

// The full canonical decomposition, unsorted: at most 4 code points (the longest in Unicode).
// Returns the number of code points.
std::size_t decompose(char32_t point, char32_t (&parts)[8]);

// Lower case without context: one code point for each, except U+0130 (I with a dot), of which a
// separate dot remains; see WordSplitter.
char32_t lower(char32_t point);

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/unicode.ipp>
#endif
