#include "bert_classifier/train/rows.hpp"

#include "bert_classifier/arguments.hpp"
#include "bert_classifier/commands.hpp"
#include "bert_classifier/train/baselines.hpp"
#include "bert_classifier/train/reviews.hpp"

#include <soma/base/fixed.hpp>

#include <algorithm>
#include <iostream>
#include <map>
#include <utility>

void report_skipped(const std::vector<soma::text::SkippedRows>& all) {
  for (const soma::text::SkippedRows& skipped : all)
    std::cerr << "skipped " << skipped.rows << " rows: " << skipped.reason.name
              << ", the first in line " << skipped.line << " of " << skipped.file << '\n';
}

namespace {

// Returns 0 if the option was not given.
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
  if (!options.label_separator.empty())
    rows.label_separator = separator_of("--label-separator", options.label_separator);
  rows.text_column = options.text_column;
  rows.label_column = options.label_column;
  rows.skip_bad_rows = options.skip_bad_rows;
  rows.labels = label_kind(options);
  rows.stop = &stop_requested;
  return rows;
}

soma::text::RowOptions row_options(const DataOptions& options,
                                   const soma::models::InputForm& form) {
  soma::text::RowOptions rows = row_options(options);
  rows.known_columns = form.columns;
  if (options.label_separator.empty() && form.label_separator != 0)
    rows.label_separator = form.label_separator;
  return rows;
}

void check_pairs(const std::vector<soma::text::LabelledRow>& rows, const std::string& source,
                 const soma::models::InputForm& form) {
  if (!form.pairs || rows.empty()) return;
  const bool pairs = !rows.front().pair.empty();
  if (pairs == *form.pairs) return;
  soma::fail(soma::error_id::text_column, "evaluate", "rows of " + soma::quoted(source),
             pairs ? "pairs of texts" : "one text each",
             *form.pairs
                 ? "pairs, as the model was trained on them: --pair-column names the column "
                   "of the second text"
                 : "one text each, as the model was trained on them: no --pair-column");
}

soma::data::LabelKind label_kind(const DataOptions& options) {
  using soma::data::LabelKind;
  return options.regression    ? LabelKind::number
         : options.multi_label ? LabelKind::several
                               : LabelKind::one;
}

namespace {

soma::models::InputForm input_form(const soma::text::RowOptions& rows,
                                   const soma::text::KnownColumns& columns) {
  const bool several = rows.labels == soma::data::LabelKind::several;
  return {.pairs = !rows.pair_column.empty(),
          .columns = columns,
          .label_separator = several ? rows.label_separator : '\0'};
}

TrainingRows read_rows(const TrainOptions& options, const soma::text::DataFiles& files) {
  soma::text::ReadOptions settings;
  settings.rows = row_options(options.data);
  settings.rows.reads_ahead = options.compute.threads != 1;
  // The fast kind does not use validation rows for selection: by default it learns from all rows.
  const double usual = options.kind == "fast" ? 0 : settings.validation_share;
  settings.validation_share = options.data.held_out_share.value_or(usual);
  settings.read_test = !options.data.files.test.empty();
  soma::text::LabelledText text = soma::text::read_labelled(files, settings);
  report_skipped(text.skipped());
  return {text.release_train(),
          {text.validation().begin(), text.validation().end()},
          {text.test().begin(), text.test().end()},
          text.labels(),
          input_form(settings.rows, text.columns()),
          {}};
}

// One pass that keeps only labels and a count, and the validation rows.
TrainingRows stream_rows(const TrainOptions& options, const soma::text::DataFiles& files) {
  if (files.train.size() != 1)
    throw UsageError("--stream takes one file, and --data " + soma::quoted(options.data.data) +
                     " has " + std::to_string(files.train.size()));
  TrainingRows rows;
  rows.stream = {.file = files.train.front(),
                 .rows = row_options(options.data),
                 .buffer_rows = options.stream};
  std::map<std::string, std::uint64_t> labels;
  soma::text::Row row;
  soma::text::RowReader reader(rows.stream->file, rows.stream->rows, "train");
  while (reader.next(row)) {
    ++rows.stream->count;
    if (rows.stream->rows.labels == soma::data::LabelKind::number) continue;
    bool new_label = false;
    for (const std::string& label : soma::text::row_labels(row, rows.stream->rows.labels))
      new_label |= ++labels[label] == 1;
    if (new_label && labels.size() > soma::text::ReadOptions{}.max_labels)
      soma::fail(soma::error_id::text_label_count, "train",
                 "labels of " + soma::quoted(rows.stream->file),
                 "more than " + std::to_string(labels.size() - 1),
                 "at most that, in the column of labels");
  }
  report_skipped(reader.skipped());
  rows.input = input_form(rows.stream->rows, reader.columns());
  // The result of a search through the whole file.
  rows.stream->rows.header =
      reader.has_header() ? soma::text::Header::present : soma::text::Header::absent;
  using soma::data::LabelKind;
  const LabelKind kind = rows.stream->rows.labels;
  if (labels.size() < (kind == LabelKind::one ? 2u : kind == LabelKind::several ? 1u : 0u))
    soma::fail(soma::error_id::text_one_class, "train", "label of all rows",
               labels.empty() ? "none" : soma::quoted(labels.begin()->first),
               kind == LabelKind::one ? "two labels at least" : "one label at least");
  for (const auto& [label, count] : labels) rows.labels.push_back(label);
  soma::text::sort_labels(rows.labels);
  soma::text::check_labels_apart("train", rows.labels);
  if (kind == LabelKind::several)
    soma::text::check_label_separator("train", rows.labels, rows.stream->rows.label_separator);
  for (const std::string& label : rows.labels) rows.stream->label_counts.push_back(labels[label]);
  // Other files may have a header where this one has none, and the reverse.
  soma::text::RowOptions others = row_options(options.data);
  others.known_columns = rows.input.columns;
  std::vector<soma::text::SkippedRows> skipped;
  rows.held_out = soma::text::read_rows(files.validation, rows.labels, others, skipped, "train");
  if (!options.data.files.test.empty())
    rows.test = soma::text::read_rows(files.test, rows.labels, others, skipped, "train");
  report_skipped(skipped);
  return rows;
}

TrainingRows make_up_rows(const TrainOptions& options) {
  TrainingRows rows;
  rows.labels = {"negative", "positive"};
  rows.input.pairs = false;
  const auto make = [&](std::size_t count, reviews::Split split, double label_noise) {
    constexpr std::size_t at_once = 1000;  // rows between two checks of the stop flag
    std::vector<soma::text::LabelledRow> made;
    for (std::size_t first = 0; first < count; first += at_once) {
      soma::check_stop(&stop_requested, "train");
      for (reviews::Review& review : reviews::generate((std::min)(at_once, count - first),
                                                       options.seed, split, label_noise, first))
        made.push_back({std::move(review.text), review.label});
    }
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
      baselines::measure(as_texts(rows.train), as_texts(rows.held_out),
                         [] { soma::check_stop(&stop_requested, "train"); });
  std::cout
      << "The reviews are generated, not written by people; held-out reviews use combinations and\n"
         "names that training never shows. Models that ignore the order of words have this\n"
         "accuracy on the held-out reviews:\n"
      << "  length only       " << soma::fixed(reached.length, 4) << '\n'
      << "  single words      " << soma::fixed(reached.words, 4) << '\n'
      << "  pairs of words    " << soma::fixed(reached.pairs, 4) << '\n'
      << std::flush;
  return rows;
}

}  // namespace

std::vector<std::uint64_t> TrainingRows::counts() const {
  if (stream) return stream->label_counts;
  std::vector<std::uint64_t> result(labels.size());
  for (const soma::text::LabelledRow& row : train) ++result[static_cast<std::size_t>(row.label)];
  return result;
}

TrainingRows training_rows(const TrainOptions& options) {
  const auto need_share = [&](bool needed, const char* reason) {
    if (options.data.held_out_share && !needed)
      throw UsageError(std::string("--held-out-share would hold out nothing: ") + reason);
  };
  if (label_kind(options.data) != soma::data::LabelKind::one && !options.class_weights.empty())
    throw UsageError(std::string("--class-weights is for rows with one label each, not for ") +
                     (options.data.regression ? "--regression" : "--multi-label"));
  if (options.data.data.empty()) {
    need_share(false, "generated reviews include held-out reviews");
    if (options.stream != 0) throw UsageError("--stream needs --data, a file of rows");
    return make_up_rows(options);
  }
  soma::text::DataFiles files = options.data.files;
  if (files.train.empty()) {
    files = soma::text::find_data_files(options.data.data);
    if (!options.data.dev.empty()) files.validation = {options.data.dev};
  }
  need_share(options.stream == 0, "with --stream held-out rows come from --dev");
  need_share(files.validation.empty(), "held-out rows have a file of their own");
  return options.stream != 0 ? stream_rows(options, files) : read_rows(options, files);
}
