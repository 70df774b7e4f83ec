#pragma once
// Text from outside, made harmless for SVG and HTML.

#include <soma/text/utf8.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::train {

namespace detail {

// Excludes characters that XML 1.0 forbids (section 2.2), and invisible control characters.
bool is_markup_character(char32_t point);

}  // namespace detail

// The text as content of an element or of an attribute in quotation marks: whatever its bytes are,
// it ends neither and is valid UTF-8. Invalid bytes become U+FFFD. A text of more than `most`
// characters is cut and ends with an ellipsis.
std::string markup_text(std::string_view text, std::size_t most = std::size_t{1} << 16);

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/curves/impl/markup.ipp>
#endif
