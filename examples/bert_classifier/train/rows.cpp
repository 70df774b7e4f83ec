#include "bert_classifier/train/rows.hpp"

#include "bert_classifier/commands.hpp"
#include "bert_classifier/train/baselines.hpp"
#include "bert_classifier/train/reviews.hpp"
#include "training/arguments.hpp"

#include <soma/base/fixed.hpp>
#include <soma/text/rows/label_counter.hpp>

#include <algorithm>
#include <iostream>
#include <set>
#include <unordered_map>
#include <utility>

void report_skipped(const std::vector<soma::text::SkippedRows>& all) {
  for (const soma::text::SkippedRows& skipped : all)
    std::cerr << "skipped " << skipped.rows << " rows: " << skipped.reason.name
              << ", the first in line " << skipped.line << " of " << skipped.file << '\n';
}

void report_notes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) std::cerr << note << '\n';
}

std::vector<soma::text::LabelledRow> measured_rows(const EvaluateOptions& options,
                                                   const std::vector<std::string>& labels,
                                                   soma::text::RowOptions rows) {
  std::vector<std::string> files, notes;
  for (const std::string& path : options.files)
    for (std::string& file : soma::text::find_test_files(path, "evaluate"))
      files.push_back(std::move(file));
  rows.notes = &notes;
  std::vector<soma::text::SkippedRows> skipped;
  std::vector<soma::text::LabelledRow> result =
      soma::text::read_rows(files, labels, rows, skipped, "evaluate");
  report_notes(notes);
  report_skipped(skipped);
  return result;
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

std::vector<std::string> split_names(const char* option, const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= text.size() && !text.empty();) {
    const std::size_t end = (std::min)(text.find(',', begin), text.size());
    names.emplace_back(soma::text::trimmed(std::string_view(text).substr(begin, end - begin)));
    if (names.back().empty())
      throw UsageError(std::string(option) + " " + soma::quoted(text) + " has an empty name in it");
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
  rows.text_columns = split_names("--text-columns", options.text_columns);
  rows.label_columns = split_names("--label-columns", options.label_columns);
  rows.merge_labels = options.merge_labels;
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
  if (options.regression) return LabelKind::number;
  return options.multi_label || !options.label_columns.empty() ? LabelKind::several
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
  std::vector<std::string> notes;
  settings.rows = row_options(options.data);
  settings.rows.notes = &notes;
  settings.rows.reads_ahead = options.compute.threads != 1;
  // The fast kind does not use validation rows for selection: by default it learns from all rows.
  const double usual = options.kind == "fast" ? 0 : settings.validation_share;
  settings.validation_share = options.data.held_out_share.value_or(usual);
  settings.read_test = !options.data.files.test.empty();
  soma::text::LabelledText text = soma::text::read_labelled(files, settings);
  report_notes(notes);
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
  using soma::data::LabelKind;
  std::vector<std::string> notes;
  soma::text::RowOptions reading = rows.stream->rows;
  reading.notes = &notes;
  const LabelKind kind = reading.labels;
  soma::text::LabelCounter counter("train", soma::text::most_labels(kind));
  soma::text::Row row;
  soma::text::RowReader reader(rows.stream->file, reading, "train");
  for (const std::string& label : reader.classes()) counter.add_class(label, reader.file());
  while (reader.next(row)) {
    ++rows.stream->count;
    for (const std::string& label : soma::text::row_labels(row, kind))
      counter.add(label, reader.file(), row.line);
  }
  report_skipped(reader.skipped());
  rows.input = input_form(rows.stream->rows, reader.columns());
  // The result of a search through the whole file.
  rows.stream->rows.header =
      reader.has_header() ? soma::text::Header::present : soma::text::Header::absent;
  if (reader.swaps_columns()) rows.stream->rows.label_column = "1";
  soma::text::LabelCounter::Classes classes = counter.finish(reading);
  rows.labels = std::move(classes.names);
  rows.stream->label_counts = std::move(classes.counts);
  // Other files may have a header where this one has none, and the reverse.
  soma::text::RowOptions others = row_options(options.data);
  others.notes = &notes;
  others.known_columns = rows.input.columns;
  std::vector<soma::text::SkippedRows> skipped;
  rows.held_out = soma::text::read_rows(files.validation, rows.labels, others, skipped, "train");
  if (!options.data.files.test.empty())
    rows.test = soma::text::read_rows(files.test, rows.labels, others, skipped, "train");
  report_notes(notes);
  report_skipped(skipped);
  return rows;
}

// A pipe and standard input can be read once. Error UsageError.
void check_passes(const TrainOptions& options, const soma::text::DataFiles& files, int ranks) {
  std::set<std::string> once;
  for (const auto* part : {&files.train, &files.validation, &files.test})
    for (const std::string& file : *part) {
      if (!soma::text::ByteSource::is_pipe(file)) continue;
      const std::string what = soma::quoted(file) + " can be read once, and ";
      if (ranks > 1) throw UsageError(what + "each rank reads the rows: write them into a file");
      if (options.stream != 0 && part == &files.train)
        throw UsageError(what +
                         "--stream reads its file in each epoch: write the rows into a file");
      if (!once.insert(file).second) throw UsageError(what + "--data and --dev both name it");
    }
}

// More classes than half of the rows are mostly a mistake in the columns.
void report_many_classes(const TrainingRows& rows) {
  std::uint64_t count = rows.held_out.size() + rows.train.size();
  if (rows.stream) count += rows.stream->count;
  if (rows.labels.size() > count / 2)
    std::cerr << "there are " << rows.labels.size() << " classes in " << count
              << " rows; are --label-column and --text-column right?\n";
}

// A model that is measured by texts that it has learnt looks better than it is.
void report_known_texts(const TrainingRows& rows) {
  if (rows.held_out.empty()) return;
  const auto key = [](const std::string& text, const std::string& pair) {
    return pair.empty() ? text : text + '\0' + pair;
  };
  std::unordered_map<std::string, std::size_t> validation;  // how many rows have the text
  for (const soma::text::LabelledRow& row : rows.held_out) ++validation[key(row.text, row.pair)];
  std::size_t known = 0;
  for_each_row(rows, [&](const std::string& text, const std::string& pair) {
    const auto found = validation.find(key(text, pair));
    if (found != validation.end()) known += std::exchange(found->second, 0);
  });
  if (known != 0)
    std::cerr << known << " of " << rows.held_out.size()
              << " validation texts also stand in the training rows\n";
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

TrainingRows training_rows(const TrainOptions& options, int ranks) {
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
  check_passes(options, files, ranks);
  TrainingRows rows = options.stream != 0 ? stream_rows(options, files) : read_rows(options, files);
  report_many_classes(rows);
  report_known_texts(rows);
  return rows;
}
