#include "bert_classifier/train/rows.hpp"

#include "bert_classifier/arguments.hpp"
#include "bert_classifier/train/baselines.hpp"
#include "bert_classifier/train/reviews.hpp"

#include <soma/base/fixed.hpp>

#include <algorithm>
#include <iostream>
#include <set>

void report_skipped(const std::vector<soma::text::SkippedRows>& all) {
  for (const soma::text::SkippedRows& skipped : all)
    std::cerr << "skipped " << skipped.rows << " rows: " << skipped.reason.name
              << ", the first in line " << skipped.line << " of " << skipped.file << '\n';
}

soma::text::RowOptions row_options(const DataOptions& options) {
  soma::text::RowOptions rows;
  rows.text_column = options.text_column;
  rows.label_column = options.label_column;
  rows.skip_bad_rows = options.skip_bad_rows;
  return rows;
}

namespace {

TrainingRows read_rows(const TrainOptions& options, const soma::text::DataFiles& files) {
  soma::text::ReadOptions settings;
  settings.rows = row_options(options.data);
  // The fast kind chooses nothing by held-out rows: unless it is asked to, it learns from all.
  const double usual = options.kind == "fast" ? 0 : settings.held_out_share;
  settings.held_out_share = options.data.held_out_share.value_or(usual);
  settings.read_test = false;
  const soma::text::LabelledText text = soma::text::read_labelled(files, settings);
  report_skipped(text.skipped());
  return {{text.train().begin(), text.train().end()},
          {text.held_out().begin(), text.held_out().end()},
          text.labels(),
          {}};
}

// One pass that keeps nothing but labels and a count; held-out rows are kept.
TrainingRows stream_rows(const TrainOptions& options, const soma::text::DataFiles& files) {
  if (files.train.size() != 1)
    throw UsageError("--stream takes one file, and --data " + soma::quoted(options.data.data) +
                     " has " + std::to_string(files.train.size()));
  TrainingRows rows;
  rows.stream = {.file = files.train.front(),
                 .rows = row_options(options.data),
                 .buffer_rows = options.stream};
  std::set<std::string> labels;
  soma::text::Row row;
  soma::text::RowReader reader(rows.stream->file, rows.stream->rows, "train");
  while (reader.next(row)) {
    ++rows.stream->count;
    if (labels.insert(row.label).second && labels.size() > soma::text::ReadOptions{}.max_labels)
      soma::fail(soma::error_id::text_label_count, "train",
                 "labels of " + soma::quoted(rows.stream->file),
                 "more than " + std::to_string(labels.size() - 1),
                 "at most that, in the column of labels");
  }
  report_skipped(reader.skipped());
  if (labels.size() < 2)
    soma::fail(soma::error_id::text_one_class, "train", "label of all rows",
               soma::quoted(*labels.begin()), "two labels at least");
  rows.labels.assign(labels.begin(), labels.end());
  soma::text::sort_labels(rows.labels);
  std::vector<soma::text::SkippedRows> skipped;
  rows.held_out =
      soma::text::read_rows(files.held_out, rows.labels, rows.stream->rows, skipped, "train");
  report_skipped(skipped);
  return rows;
}

TrainingRows make_up_rows(const TrainOptions& options) {
  TrainingRows rows;
  rows.labels = {"negative", "positive"};
  const auto make = [&](std::size_t count, reviews::Split split, double label_noise) {
    std::vector<soma::text::LabelledRow> made;
    for (reviews::Review& review : reviews::generate(count, options.seed, split, label_noise))
      made.push_back({std::move(review.text), review.label});
    return made;
  };
  rows.train = make(options.reviews, reviews::Split::train, options.label_noise);
  rows.held_out = make(std::clamp(options.reviews / 10, std::size_t{100}, std::size_t{4000}),
                       reviews::Split::held_out, 0);
  const auto as_texts = [](const std::vector<soma::text::LabelledRow>& from) {
    std::vector<baselines::Text> texts;
    for (const auto& row : from) texts.push_back({row.text, static_cast<int>(row.label)});
    return texts;
  };
  const baselines::Accuracies reached =
      baselines::measure(as_texts(rows.train), as_texts(rows.held_out));
  std::cout << "The reviews are generated, not written by people; the held-out ones are made of\n"
               "combinations and names that training never shows. What ignores the order of words\n"
               "reaches, on the held-out reviews:\n"
            << "  length only       " << soma::detail::fixed(reached.length, 4) << '\n'
            << "  single words      " << soma::detail::fixed(reached.words, 4) << '\n'
            << "  pairs of words    " << soma::detail::fixed(reached.pairs, 4) << '\n'
            << std::flush;
  return rows;
}

}  // namespace

TrainingRows training_rows(const TrainOptions& options) {
  const auto need_share = [&](bool needed, const char* reason) {
    if (options.data.held_out_share && !needed)
      throw UsageError(std::string("--held-out-share would hold out nothing: ") + reason);
  };
  if (options.data.data.empty()) {
    need_share(false, "reviews that are made up have held-out ones of their own");
    if (options.stream != 0) throw UsageError("--stream needs --data, a file of rows");
    return make_up_rows(options);
  }
  soma::text::DataFiles files = soma::text::find_data_files(options.data.data);
  if (!options.data.dev.empty()) files.held_out = {options.data.dev};
  need_share(options.stream == 0, "with --stream held-out rows come from --dev");
  need_share(files.held_out.empty(), "held-out rows have a file of their own");
  return options.stream != 0 ? stream_rows(options, files) : read_rows(options, files);
}
