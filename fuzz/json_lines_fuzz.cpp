// Reads arbitrary bytes as JSON lines: rows or a soma::Error, and nothing else.

#include <soma/text/row_reader.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace soma::text;
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  using soma::data::LabelKind;
  for (const auto& [skip, kind] : {std::pair(false, LabelKind::one),
                                   {true, LabelKind::one},
                                   {true, LabelKind::several},
                                   {true, LabelKind::number}}) {
    try {
      RowReader reader = RowReader::of_memory(content, {.format = Format::json_lines,
                                                        .max_row_bytes = 4096,
                                                        .skip_bad_rows = skip,
                                                        .labels = kind});
      Row row;
      while (reader.next(row)) {
        if (row.text.empty() || (kind != LabelKind::several && row.label.empty())) std::abort();
        for (const std::string& label : row.labels)
          if (label.empty() || find_invalid_utf8(label) != std::string_view::npos) std::abort();
        if (find_invalid_utf8(row.text) != std::string_view::npos) std::abort();
      }
    } catch (const soma::Error&) {
    }
  }
  return 0;
}
