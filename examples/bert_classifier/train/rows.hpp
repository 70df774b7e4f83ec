// The rows of a training: in memory, made up, or streamed from their file.
#pragma once

#include "bert_classifier/commands.hpp"
#include "bert_classifier/train/options.hpp"

#include <soma/models/input_form.hpp>
#include <soma/text/labelled_text.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

struct TrainingRows {
  // Training rows of a file that need not fit in memory.
  struct Stream {
    std::string file;
    soma::text::RowOptions rows{};
    std::size_t buffer_rows = 0;
    std::uint64_t count = 0;
    std::vector<std::uint64_t> label_counts{};  // rows of each class
  };

  std::vector<soma::text::LabelledRow> train, held_out;
  std::vector<soma::text::LabelledRow> test;  // a job's test rows, for the finished model
  std::vector<std::string> labels;
  soma::models::InputForm input;  // how rows are read, for the model's folder
  std::optional<Stream> stream;   // replaces `train`

  // The number of training rows in each class.
  std::vector<std::uint64_t> counts() const;
};

// Error UsageError: a separator that is no single character.
soma::text::RowOptions row_options(const DataOptions& options);
// The same for a model: where the options leave the choice open, rows are read as the model's were.
soma::text::RowOptions row_options(const DataOptions& options, const soma::models::InputForm& form);
// Error text.column: rows of one text for a model that was trained on pairs, or the reverse.
void check_pairs(const std::vector<soma::text::LabelledRow>& rows, const std::string& source,
                 const soma::models::InputForm& form);
// The kind of label by these options: one label, or a number.
soma::data::LabelKind label_kind(const DataOptions& options);
// Prints a line on standard error for each reason to skip rows.
void report_skipped(const std::vector<soma::text::SkippedRows>& all);

// Prints each of them as a line on standard error.
void report_notes(const std::vector<std::string>& notes);

// The rows to evaluate a model by, with its labels. Errors of read_rows.
std::vector<soma::text::LabelledRow> measured_rows(const EvaluateOptions& options,
                                                   const std::vector<std::string>& labels,
                                                   soma::text::RowOptions rows);

// `ranks`: how many processes read the rows. Errors of read_labelled, and UsageError.
TrainingRows training_rows(const TrainOptions& options, int ranks);

// Calls take(text, pair) for every training row. Error runtime.stopped.
template <class Take>
void for_each_row(const TrainingRows& rows, const Take& take) {
  for (const soma::text::LabelledRow& row : rows.train) {
    soma::check_stop(&stop_requested, "train");
    take(row.text, row.pair);
  }
  if (!rows.stream) return;
  soma::text::RowReader reader(rows.stream->file, rows.stream->rows, "train");
  for (soma::text::Row row; reader.next(row);) take(row.text, row.pair);
}

// Calls take(text) for the text of every training row, and for its second text. Error
// runtime.stopped.
template <class Take>
void for_each_text(const TrainingRows& rows, const Take& take) {
  for_each_row(rows, [&](const std::string& text, const std::string& pair) {
    take(text);
    if (!pair.empty()) take(pair);
  });
}
