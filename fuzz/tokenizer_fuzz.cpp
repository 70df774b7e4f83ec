// Any bytes as a text. The first chooses options, the second a length; lines of 0xFF part the rest
// into two texts and additional pieces of the vocabulary.

#include <soma/text/tokenizer.hpp>

#include "check.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace soma::text;
using soma_fuzz::check;

constexpr std::string_view first_pieces =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##a\nb\n##b\nab\n##ab\nthe\n##ing\n.\n[\n"
    "\xC3\xA9\n##\xC3\xA9\n\xCC\x87\n##\xCC\x87\n\xE6\xBC\xA2\n\xE1\x84\x92\n##\xE1\x85\xA1\n";

void check_encoding(const Tokenizer& tokenizer, const Encoding& encoding, std::size_t most,
                    std::string_view text, std::string_view second) {
  const std::size_t count = encoding.ids.size();
  check(count <= most, "no longer than asked for");
  check(encoding.types.size() == count && encoding.offsets.size() == count, "as many of each");
  check(encoding.replaced <= text.size() + second.size(), "no more replaced than there is");
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = (encoding.types[i] == 0 ? text : second).size();
    const Span span = encoding.offsets[i];
    check(span.begin <= span.end && span.end <= size, "a token stands in its text");
  }
  check(tokenizer.decode(encoding.ids).size() < 128 * count + 1, "ids become text");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  try {
    std::string_view rest(reinterpret_cast<const char*>(data) + 2, size - 2);
    const auto part = [&] {
      const std::size_t end = std::min(rest.find("\n\xFF\n"), rest.size());
      const std::string_view found = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 3, rest.size()));
      return found;
    };
    std::string pieces(first_pieces);
    const std::string_view text = part(), second = part();
    pieces.append(part());
    TokenizerOptions options;
    options.split = {.lowercase = (data[0] & 1) == 0,
                     .chinese_chars = (data[0] & 2) == 0,
                     .clean_text = (data[0] & 4) == 0,
                     .max_word_chars = (data[0] & 8) == 0 ? std::size_t{100} : std::size_t{3}};
    if ((data[0] & 16) != 0) options.split.strip_accents = (data[0] & 1) != 0;
    options.special_in_text = (data[0] & 32) == 0;
    const Tokenizer tokenizer(Vocabulary::from_text(pieces), options);
    const std::size_t most = data[1] == 0 ? no_limit : data[1];
    const Encoding one = tokenizer.encode(text, {.max_length = most, .offsets = true});
    check_encoding(tokenizer, one, most, text, {});
    std::vector<std::int32_t> ids;
    check(tokenizer.encode_ids(text, most, ids) <= one.replaced, "reads no further");
    check(ids == one.ids, "the fast path finds the same");
    check_encoding(tokenizer, tokenizer.encode(text, second, {.max_length = most, .offsets = true}),
                   most, text, second);
  } catch (const soma::Error&) {
  }
  return 0;
}
