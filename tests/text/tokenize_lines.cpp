// The counterpart of compare_tokenizers.py: reads texts, writes their tokens.
//
//   tokenize_lines FOLDER OPTIONS <texts >tokens
// OPTIONS: letters of l (lowercase), s / S (strip_accents true / false), c (chinese_chars), t
// (clean_text), p (texts come in pairs), and a number: max_length. A text is its length (4 bytes,
// little-endian) and its bytes. Tokens are lines of "id:begin:end:type id:begin:end:type ... | ",
// and the decoded text in hex.

#include <soma/text.hpp>

#include "texts_with_lengths.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

int main(int count, char** arguments) {
  using namespace soma::text;
  if (count != 3) return 2;
  const std::string letters = arguments[2];
  const auto has = [&](char letter) { return letters.find(letter) != std::string::npos; };
  TokenizerOptions options;
  options.split.lowercase = has('l');
  if (has('s')) options.split.strip_accents = true;
  if (has('S')) options.split.strip_accents = false;
  options.split.chinese_chars = has('c');
  options.split.clean_text = has('t');
  EncodeOptions encode{.offsets = true};
  const std::size_t digits = letters.find_first_of("0123456789");
  if (digits != std::string::npos)
    encode.max_length = std::strtoul(letters.c_str() + digits, nullptr, 10);
  const Tokenizer tokenizer(Vocabulary::read(std::string(arguments[1]) + "/vocab.txt"), options);
  std::string text, second, line;
  while (soma_test::read_text(text)) {
    if (has('p') && !soma_test::read_text(second)) return 1;
    const Encoding found =
        has('p') ? tokenizer.encode(text, second, encode) : tokenizer.encode(text, encode);
    line.clear();
    for (std::size_t i = 0; i < found.ids.size(); ++i) {
      line += std::to_string(found.ids[i]) + ":" + std::to_string(found.offsets[i].begin) + ":" +
              std::to_string(found.offsets[i].end) + ":" + std::to_string(found.types[i]) + " ";
    }
    line += "| " + soma_test::hex_of(tokenizer.decode(found.ids));
    line += '\n';
    std::fwrite(line.data(), 1, line.size(), stdout);
  }
  return std::feof(stdin) != 0 ? 0 : 1;
}
