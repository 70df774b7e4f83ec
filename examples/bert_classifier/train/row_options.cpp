#include "bert_classifier/train/row_options.hpp"

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
