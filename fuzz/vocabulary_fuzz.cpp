// Any bytes as a vocab.txt: refused, or a vocabulary that is written and read the same.

#include <soma/text/vocabulary.hpp>

#include "check.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace soma::text;
  try {
    const std::string_view content(reinterpret_cast<const char*>(data), size);
    const Vocabulary vocabulary = Vocabulary::from_text(content);
    for (std::size_t i = 0; i < vocabulary.size(); ++i) {
      const auto id = static_cast<std::int32_t>(i);
      const std::string_view piece = vocabulary.piece(id);
      // An empty line has no piece; of equal lines the last has it.
      const std::int32_t found = vocabulary.find(piece);
      soma_fuzz::check(piece.empty() ? found == Vocabulary::absent
                                     : found >= id && vocabulary.piece(found) == piece,
                       "every piece is found");
      soma_fuzz::check(vocabulary.is_piece(id) == (found == id), "and knows its id");
    }
    soma_fuzz::check(vocabulary.find("\xFF") == Vocabulary::absent, "no piece is invalid");
    soma_fuzz::check(Vocabulary::from_text(vocabulary.to_text()) == vocabulary, "reads the same");
  } catch (const soma::Error&) {
  }
  return 0;
}
