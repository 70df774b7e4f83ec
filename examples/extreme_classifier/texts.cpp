#include "extreme_classifier/texts.hpp"

#include <soma/text/labelled_text.hpp>
#include <soma/text/row_reader.hpp>
#include <soma/text/text_lines.hpp>

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <utility>

namespace {

using soma::data::LabelKind;

soma::text::RowOptions row_options(const TextOptions& form, std::size_t max_line_bytes) {
  soma::text::RowOptions rows;
  rows.labels = form.multi_label ? LabelKind::several : LabelKind::one;
  rows.text_column = form.text_column;
  rows.label_column = form.label_column;
  if (form.header != "detect")
    rows.header = form.header == "yes" ? soma::text::Header::present : soma::text::Header::absent;
  rows.max_row_bytes = max_line_bytes;
  rows.stop = &stop_requested;
  return rows;
}

void print(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) std::cerr << note << '\n';
}

}  // namespace

bool is_text_file(std::string_view file) {
  if (file.ends_with(".gz")) file.remove_suffix(3);
  for (const std::string_view end : {".tsv", ".csv", ".json", ".jsonl", ".ndjson", ".ft.txt"})
    if (file.ends_with(end)) return true;
  return false;
}

Texts read_texts(const std::string& file, const TextOptions& form, std::size_t max_line_bytes) {
  std::vector<std::string> notes;
  soma::text::ReadOptions options{.validation_share = 0, .max_labels = std::size_t{1} << 27};
  options.rows = row_options(form, max_line_bytes);
  options.rows.notes = &notes;
  soma::text::LabelledText read =
      soma::text::read_labelled(soma::text::DataFiles{{file}, {}, {}}, options);
  print(notes);
  Texts result;
  result.names = read.labels();
  result.labels.offsets.push_back(0);
  for (soma::text::LabelledRow& row : read.release_train()) {
    result.texts.push_back(std::move(row.text));
    const std::vector<std::int32_t> one{static_cast<std::int32_t>(row.label)};
    result.labels.add(form.multi_label ? row.labels : one);
  }
  return result;
}

Texts read_known_texts(const std::string& file, const std::vector<std::string>& names,
                       const TextOptions& form, std::size_t max_line_bytes) {
  std::vector<std::string> notes;
  soma::text::RowOptions options = row_options(form, max_line_bytes);
  options.notes = &notes;
  const soma::text::LabelIndex index(names);
  Texts result;
  result.labels.offsets.push_back(0);
  std::uint64_t unknown = 0;
  std::vector<std::int32_t> own;
  soma::text::RowReader reader(file, options, "extreme_classifier");
  for (soma::text::Row row; reader.next(row);) {
    own.clear();
    for (const std::string& label : soma::text::row_labels(row, options.labels)) {
      if (const auto found = index.find(label))
        own.push_back(static_cast<std::int32_t>(*found));
      else
        ++unknown;
    }
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    result.labels.add(own);
    result.texts.push_back(std::move(row.text));
  }
  print(notes);
  if (unknown != 0)
    std::cerr << unknown << " labels of " << file
              << " are none of the model's: no answer can have them\n";
  return result;
}

std::vector<std::string> read_lines(const std::string& file, std::size_t max_line_bytes) {
  soma::text::TextLines lines(file, "predict", row_options({}, max_line_bytes));
  std::vector<std::string> result;
  for (std::string line; lines.next(line);) result.push_back(std::move(line));
  return result;
}
