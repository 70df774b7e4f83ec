// Any bytes as the tokenizer.json and the tokenizer_config.json of a byte-level tokenizer: refused,
// or a tokenizer whose ids of a text are in range and have a text of their own.

#include <soma/text/byte_pairs/byte_tokenizer.hpp>
#include <soma/text/byte_pairs/byte_tokenizer_json.hpp>

#include "check.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace soma::text;
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  try {
    ByteTokenizerParts parts;
    parts.pieces = {"a", "b", "<s>"};
    parts.added = {{.content = "<s>", .id = 2}};
    read_byte_tokenizer_config(content, parts);
    soma_fuzz::check(parts.start < 3 && parts.end < 3, "bos and eos are tokens");
  } catch (const soma::Error&) {
  }
  try {
    const ByteTokenizer tokenizer(read_byte_tokenizer_json(content));
    for (const std::string_view text :
         {"", "It's 12 o'clock, d\xc3\xa9j\xc3\xa0 vu!\r\n  <s>", "\xff\xc3"}) {
      std::vector<std::int32_t> ids;
      tokenizer.append_ids(text, ids);
      for (const std::int32_t id : ids)
        soma_fuzz::check(id >= 0 && static_cast<std::size_t>(id) < tokenizer.id_count(),
                         "ids are below their number");
      static_cast<void>(tokenizer.decode(ids, false));
    }
  } catch (const soma::Error&) {
  }
  return 0;
}
