#include "bert_classifier/train/row_options.hpp"

#include <CLI/CLI.hpp>

void add_rows(CLI::App& command, DataOptions& options) {
  command.add_option("--text-column", options.text_column, "number (from 1) or name of the column")
      ->type_name("N|NAME")
      ->group(data_group);
  command
      .add_option("--label-column", options.label_column, "number (from 1) or name of the column")
      ->type_name("N|NAME")
      ->group(data_group);
  command
      .add_option("--text-columns", options.text_columns,
                  "several columns to join, such as title,content, instead of --text-column")
      ->type_name("N|NAME,...")
      ->excludes("--text-column")
      ->group(data_group);
  command
      .add_option("--pair-column", options.pair_column,
                  "column of a second text: the model reads both texts as a pair")
      ->type_name("N|NAME")
      ->group(data_group);
  command
      .add_option("--header", options.header,
                  "yes or no: the first row has the names of the columns; detect: decide by the "
                  "first row and the other rows, and stop with an error if the rows do not decide")
      ->check(CLI::IsMember({"detect", "yes", "no"}))
      ->capture_default_str()
      ->group(data_group);
  command
      .add_option("--separator", options.separator,
                  "separator of columns: comma, tab, semicolon, bar, or one character; fields may "
                  "then be quoted. Default: by the file's name")
      ->type_name("NAME")
      ->group(data_group);
  command
      .add_option("--label-separator", options.label_separator,
                  "separator of several labels in a cell: comma, semicolon, bar, or one character")
      ->type_name("NAME")
      ->default_str("comma")
      ->group(data_group);
  command
      .add_option(
          "--label-columns", options.label_columns,
          "columns of 0 and 1, each for a class, in a table with a header: rows with several "
          "labels")
      ->type_name("NAME,...")
      ->excludes("--label-column")
      ->group(data_group);
  command
      .add_flag("--merge-labels", options.merge_labels,
                "labels that are the same to a reader (1 and 1.0, true and True, accents composed "
                "or apart) are one class instead of an error")
      ->group(data_group);
  command
      .add_flag("--skip-bad-rows", options.skip_bad_rows,
                "skip and count invalid rows instead of ending with an error")
      ->group(data_group);
}
