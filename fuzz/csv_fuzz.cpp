// Reads arbitrary bytes as rows of CSV, TSV and fastText: rows or a soma::Error, and nothing else.
// The first byte chooses the options. What is delivered keeps the readers' promises.

#include <soma/text/row_reader.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace soma::text;
  if (size == 0) return 0;
  const std::uint8_t choice = data[0];
  constexpr Format formats[] = {Format::csv, Format::csv, Format::tsv, Format::fasttext};
  RowOptions options{.format = formats[choice % 4]};
  options.header = static_cast<Header>(choice / 4 % 3);
  options.skip_bad_rows = (choice & 16) != 0;
  if ((choice & 32) != 0) options.max_row_bytes = 20;
  if ((choice & 64) != 0) options.text_column = "2";
  if ((choice & 128) != 0) options.format = Format::detect;
  const std::string_view content(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    RowReader reader = RowReader::of_memory(content, options);
    Row row;
    std::uint64_t last_line = 0;
    while (reader.next(row)) {
      if (row.line <= last_line || row.text.empty() || row.label.empty()) std::abort();
      if (row.text.size() + row.label.size() > options.max_row_bytes) std::abort();
      if (find_invalid_utf8(row.text) != std::string_view::npos) std::abort();
      last_line = row.line;
    }
  } catch (const soma::Error&) {
  }
  // The same with several labels in a cell, as lists too.
  options.labels = soma::data::LabelKind::several;
  try {
    RowReader reader = RowReader::of_memory(content, options);
    for (Row row; reader.next(row);)
      for (const std::string& label : row.labels)
        if (label.empty() || find_invalid_utf8(label) != std::string_view::npos) std::abort();
  } catch (const soma::Error&) {
  }
  return 0;
}
