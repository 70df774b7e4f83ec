// Reads arbitrary bytes as JSON lines: rows or a soma::Error, and nothing else.

#include <soma/text/row_reader.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace soma::text;
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  for (const bool skip : {false, true}) {
    try {
      RowReader reader = RowReader::of_memory(
          content, {.format = Format::json_lines, .max_row_bytes = 4096, .skip_bad_rows = skip});
      Row row;
      while (reader.next(row)) {
        if (row.text.empty() || row.label.empty()) std::abort();
        if (find_invalid_utf8(row.text) != std::string_view::npos) std::abort();
      }
    } catch (const soma::Error&) {
    }
  }
  return 0;
}
