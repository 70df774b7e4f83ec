// The tokenizer beside the package `tokenizers`: stored texts that are hard, and their tokens.

#include <soma/text/tokenizer.hpp>

#include "catch.hpp"

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

using namespace soma::text;
using namespace std::string_view_literals;

namespace {

struct StoredCase {
  const char* options;  // letters as in tokenize_lines.cpp
  std::string_view text, second;
  const char* tokens;  // id:begin:end:type for each, "| ", and the decoded text in hex
};

#include "text/tokenizer_cases.inc"

Tokenizer tokenizer_for(std::string_view letters) {
  const auto has = [&](char letter) { return letters.find(letter) != std::string_view::npos; };
  TokenizerOptions options;
  options.split.lowercase = has('l');
  if (has('s')) options.split.strip_accents = true;
  if (has('S')) options.split.strip_accents = false;
  options.split.chinese_chars = has('c');
  options.split.clean_text = has('t');
  return Tokenizer(Vocabulary::from_text(stored_vocabulary), options);
}

std::string tokens_of(const Tokenizer& tokenizer, const Encoding& encoding) {
  std::string line;
  for (std::size_t i = 0; i < encoding.ids.size(); ++i)
    line += std::to_string(encoding.ids[i]) + ":" + std::to_string(encoding.offsets[i].begin) +
            ":" + std::to_string(encoding.offsets[i].end) + ":" +
            std::to_string(encoding.types[i]) + " ";
  line += "| ";
  for (const char letter : tokenizer.decode(encoding.ids)) {
    const auto code = static_cast<unsigned char>(letter);
    line += {"0123456789abcdef"[code >> 4], "0123456789abcdef"[code & 15]};
  }
  return line;
}

}  // namespace

TEST_CASE("stored texts have the tokens that the reference gives them", "[unit][text][tokenizer]") {
  std::size_t count = 0, pairs = 0, cut = 0;
  for (const StoredCase& stored : stored_cases) {
    const std::string_view letters = stored.options;
    const Tokenizer tokenizer = tokenizer_for(letters);
    EncodeOptions options{.offsets = true};
    const std::size_t digits = letters.find_first_of("0123456789");
    if (digits != std::string_view::npos) {
      options.max_length = std::strtoul(stored.options + digits, nullptr, 10);
      ++cut;
    }
    const bool pair = letters.find('p') != std::string_view::npos;
    const Encoding encoding = pair ? tokenizer.encode(stored.text, stored.second, options)
                                   : tokenizer.encode(stored.text, options);
    INFO("text " << count << ", options " << letters);
    CHECK(tokens_of(tokenizer, encoding) == stored.tokens);
    if (!pair) {
      std::vector<std::int32_t> ids;
      tokenizer.encode_ids(stored.text, options.max_length, ids);
      CHECK(ids == encoding.ids);
    }
    pairs += pair ? 1 : 0;
    ++count;
  }
  CHECK(count > 500);
  CHECK(pairs > 50);
  CHECK(cut > 50);
}
