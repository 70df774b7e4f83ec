// The rows of a training: read, made up, or left in their file.
#pragma once

#include "bert_classifier/train/options.hpp"

#include <soma/text/labelled_text.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

struct TrainingRows {
  // Training rows of a file that need not fit into memory.
  struct Stream {
    std::string file;
    soma::text::RowOptions rows{};
    std::size_t buffer_rows = 0;
    std::uint64_t count = 0;
  };

  std::vector<soma::text::LabelledRow> train, held_out;
  std::vector<std::string> labels;
  std::optional<Stream> stream;  // instead of train
};

soma::text::RowOptions row_options(const DataOptions& options);
// What a text gets by these options: one label, or a number.
soma::data::LabelKind label_kind(const DataOptions& options);
// A line on standard error for each reason that rows were left out for.
void report_skipped(const std::vector<soma::text::SkippedRows>& all);

// Errors of read_labelled, and UsageError.
TrainingRows training_rows(const TrainOptions& options);

// Calls take(text) for the text of every training row.
template <class Take>
void for_each_text(const TrainingRows& rows, const Take& take) {
  for (const soma::text::LabelledRow& row : rows.train) take(row.text);
  if (!rows.stream) return;
  soma::text::RowReader reader(rows.stream->file, rows.stream->rows, "train");
  for (soma::text::Row row; reader.next(row);) take(row.text);
}
