// UTF-8: every code point there and back, and every way to be wrong.

#include <soma/text/utf8.hpp>

#include "catch.hpp"

#include <string>
#include <string_view>

using namespace soma::text;

namespace {

// The text with '?' for each replaced sequence.
std::string replaced(std::string_view text) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    if (point.valid)
      append_utf8(result, point.value);
    else
      result.push_back('?');
    at += point.bytes;
  }
  return result;
}

}  // namespace

TEST_CASE("every code point is written and read again", "[unit][text][utf8]") {
  std::size_t wrong = 0;
  for (char32_t value = 0; value < 0x110000; ++value) {
    if (value >= 0xD800 && value < 0xE000) continue;
    std::string text;
    append_utf8(text, value);
    const CodePoint point = decode_utf8(text, 0);
    const bool same = point.valid && point.value == value && point.bytes == text.size();
    const std::size_t size = value < 0x80 ? 1 : value < 0x800 ? 2 : value < 0x10000 ? 3 : 4;
    // Cut anywhere it is no longer one, and one replacement stands for what is left.
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      const CodePoint part = decode_utf8(std::string_view(text).substr(0, cut), 0);
      if (part.valid || part.bytes != cut || part.value != replacement) ++wrong;
    }
    if (!same || text.size() != size || !is_utf8(text)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("invalid bytes are replaced as other decoders do it", "[unit][text][utf8]") {
  // Unicode's own table of examples (chapter 3, "U+FFFD substitution of maximal subparts").
  CHECK(replaced("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41") == "????????A");
  CHECK(replaced("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41") == "????????A");
  CHECK(replaced("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42") == "?????A??B");
  CHECK(replaced("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41") == "????A");
  CHECK(replaced("caf\xE9") == "caf?");
  CHECK(replaced("\xF0\x9F\x98") == "?");
  CHECK(replaced("\x80") == "?");
  CHECK_FALSE(is_utf8("a\xC3"));
  CHECK_FALSE(is_utf8("\xED\xA0\x80"));
  CHECK(is_utf8(""));
  CHECK(is_utf8("a\xC3\xA9\xF0\x9F\x98\x80"));
}

TEST_CASE("the first byte that is wrong is found, wherever it stands", "[unit][text][utf8]") {
  for (std::size_t size = 1; size < 40; ++size) {
    const std::string good(size, 'x');
    CHECK(find_invalid_utf8(good) == std::string_view::npos);
    for (std::size_t at = 0; at < size; ++at)
      for (const char byte : {'\0', '\x80', '\xFF', '\x7F', '\x01'}) {
        std::string text = good;
        text[at] = byte;
        CHECK(find_invalid_utf8(text) ==
              (byte == '\x7F' || byte == '\x01' ? std::string_view::npos : at));
        text.insert(at, "\xC3\xA9");
        CHECK(find_invalid_utf8(text) ==
              (byte == '\x7F' || byte == '\x01' ? std::string_view::npos : at + 2));
      }
  }
}
