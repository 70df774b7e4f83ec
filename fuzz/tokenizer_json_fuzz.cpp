// Any bytes as a tokenizer.json and as a tokenizer_config.json: refused, or a tokenizer that works
// and is written and read the same.

#include <soma/text/tokenizer_json.hpp>

#include "check.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace soma::text;
  using soma_fuzz::check;
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  try {
    const TokenizerOptions options = read_tokenizer_config(content);
    check(read_tokenizer_config(to_tokenizer_config(options), options) == options,
          "options read the same");
  } catch (const soma::Error&) {
  }
  try {
    TokenizerParts parts = read_tokenizer_json(content);
    const Tokenizer tokenizer(std::move(parts.vocabulary), std::move(parts.options));
    check(!tokenizer.encode("a text [MASK]").ids.empty(), "texts have tokens");
    const TokenizerParts again = read_tokenizer_json(to_tokenizer_json(tokenizer));
    check(again.vocabulary == tokenizer.vocabulary(), "pieces read the same");
    check(again.options.split == tokenizer.options().split, "options of words read the same");
  } catch (const soma::Error&) {
  }
  return 0;
}
