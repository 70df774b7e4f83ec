// The counterpart of byte_tokenizer_cases.py --compare: reads texts, writes their tokens.
//
//   tokenize_bytes FOLDER <texts >tokens
// A text is its length (4 bytes, little-endian) and its bytes. Tokens are lines of "id:begin:end
// ... |" and the decoded text in hex.

#include <soma/text/byte_pairs/byte_tokenizer_json.hpp>

#include <cstddef>
#include "../texts_with_lengths.hpp"

#include <cstdio>
#include <exception>
#include <string>

int main(int count, char** arguments) try {
  if (count != 2) return 2;
  const auto tokenizer = soma::text::ByteTokenizer::from_files(arguments[1]);
  std::string text, line;
  while (soma_test::read_text(text)) {
    const soma::text::Encoding found = tokenizer.encode(text, {.offsets = true});
    line.clear();
    for (std::size_t i = 0; i < found.ids.size(); ++i)
      line += std::to_string(found.ids[i]) + ":" + std::to_string(found.offsets[i].begin) + ":" +
              std::to_string(found.offsets[i].end) + " ";
    line += "| " + soma_test::hex_of(tokenizer.decode(found.ids));
    line += '\n';
    std::fwrite(line.data(), 1, line.size(), stdout);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
