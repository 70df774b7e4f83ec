#include "bert_classifier/train/row_options.hpp"

#include "bert_classifier/arguments.hpp"

#include <soma/base/error.hpp>
#include <soma/text/rows/column_names.hpp>

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

CLI::Option* add_rows(CLI::App& command, DataOptions& options, const std::string& folder) {
  CLI::Option* data =
      command
          .add_option("--data", options.data,
                      "TSV, CSV, fastText or JSON lines, also .gz; or a folder " + folder)
          ->type_name("PATH")
          ->group(data_group);
  command.add_option("--text-column", options.text_column, "number (from 1) or name of the column")
      ->type_name("N|NAME")
      ->group(data_group);
  command
      .add_option("--label-column", options.label_column, "number (from 1) or name of the column")
      ->type_name("N|NAME")
      ->group(data_group);
  command
      .add_option("--text-columns", options.text_columns,
                  "instead: several columns, such as title,content, whose texts are joined")
      ->type_name("N|NAME,...")
      ->excludes("--text-column")
      ->group(data_group);
  command
      .add_option("--pair-column", options.pair_column,
                  "column of a second text: the model reads both, as one pair")
      ->type_name("N|NAME")
      ->group(data_group);
  command
      .add_option("--header", options.header,
                  "whether the first row names the columns; detect: by its names and by the other "
                  "rows, and where these do not tell, an error asks")
      ->check(CLI::IsMember({"detect", "yes", "no"}))
      ->capture_default_str()
      ->group(data_group);
  command
      .add_option("--separator", options.separator,
                  "of columns: comma, tab, semicolon, bar, or one character; fields may stand in "
                  "quotes then. Default: as the file's name says")
      ->type_name("NAME")
      ->group(data_group);
  command
      .add_option("--label-separator", options.label_separator,
                  "between the labels of a cell, of rows with several: comma, semicolon, bar, or "
                  "one character")
      ->type_name("NAME")
      ->capture_default_str()
      ->group(data_group);
  command
      .add_flag("--skip-bad-rows", options.skip_bad_rows,
                "count rows that cannot be read instead of ending with an error")
      ->group(data_group);
  return data;
}

namespace {

// 0: none is given.
char separator_of(const char* option, const std::string& text) {
  for (const auto& [name, character] : {std::pair("comma", ','),
                                        {"tab", '\t'},
                                        {"\\t", '\t'},
                                        {"semicolon", ';'},
                                        {"bar", '|'},
                                        {"pipe", '|'},
                                        {"space", ' '}})
    if (text == name) return character;
  if (text.size() > 1 || text.find_first_of("\"\r\n") != text.npos ||
      (!text.empty() && (static_cast<unsigned char>(text[0]) & 0x80) != 0))
    throw UsageError(std::string(option) + " is " + soma::quoted(text) +
                     ", wanted comma, tab, semicolon, bar or one character");
  return text.empty() ? '\0' : text[0];
}

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = (std::min)(text.find(',', begin), text.size());
    names.emplace_back(soma::text::trimmed(std::string_view(text).substr(begin, end - begin)));
    if (names.back().empty())
      throw UsageError("--text-columns " + soma::quoted(text) + " has an empty name in it");
    begin = end + 1;
  }
  return names;
}

}  // namespace

soma::text::RowOptions row_options(const DataOptions& options) {
  soma::text::RowOptions rows;
  rows.header = options.header == "yes"  ? soma::text::Header::present
                : options.header == "no" ? soma::text::Header::absent
                                         : soma::text::Header::detect;
  rows.text_columns = split_names(options.text_columns);
  rows.pair_column = options.pair_column;
  rows.separator = separator_of("--separator", options.separator);
  rows.label_separator = separator_of("--label-separator", options.label_separator);
  if (options.multi_label) rows.labels = soma::data::LabelKind::several;
  rows.text_column = options.text_column;
  rows.label_column = options.label_column;
  rows.skip_bad_rows = options.skip_bad_rows;
  return rows;
}
