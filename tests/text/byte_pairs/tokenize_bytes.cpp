// The counterpart of byte_tokenizer_cases.py --compare: reads texts, writes their tokens.
//
//   tokenize_bytes FOLDER <texts >tokens
// A text is its length (4 bytes, little-endian) and its bytes. Tokens are lines of "id:begin:end
// ... |" and the decoded text in hex.

#include <soma/text/byte_pairs/byte_tokenizer_json.hpp>

#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>

namespace {

bool read_text(std::string& text) {
  unsigned char length[4];
  if (std::fread(length, 1, 4, stdin) != 4) return false;
  text.resize(length[0] | length[1] << 8 | length[2] << 16 | std::size_t{length[3]} << 24);
  return std::fread(text.data(), 1, text.size(), stdin) == text.size();
}

}  // namespace

int main(int count, char** arguments) try {
  if (count != 2) return 2;
  const auto tokenizer = soma::text::ByteTokenizer::from_files(arguments[1]);
  std::string text, line;
  while (read_text(text)) {
    const soma::text::Encoding found = tokenizer.encode(text, {.offsets = true});
    line.clear();
    for (std::size_t i = 0; i < found.ids.size(); ++i)
      line += std::to_string(found.ids[i]) + ":" + std::to_string(found.offsets[i].begin) + ":" +
              std::to_string(found.offsets[i].end) + " ";
    line += "| ";
    for (const char letter : tokenizer.decode(found.ids)) {
      char hex[3];
      std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(letter));
      line += hex;
    }
    line += '\n';
    std::fwrite(line.data(), 1, line.size(), stdout);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
