#pragma once
// LabelledText: texts in memory with a class each, for training and validation; or with any number
// of classes, or with a number (RowOptions::labels).

#include <soma/data/content_hash.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/text/data_files.hpp>
#include <soma/text/row_reader.hpp>
#include <soma/text/rows/sort_labels.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace soma::text {

struct LabelledRow {
  std::string text;
  std::int64_t label = 0;              // index in labels(); LabelKind::one
  std::vector<std::int32_t> labels{};  // indices in labels(), ascending, each once; several
  float number = 0;                    // LabelKind::number
  std::string pair{};                  // the second text, of pairs
};

struct ReadOptions {
  RowOptions rows{};
  // If there are no validation files: the share of training rows that becomes the validation set.
  // 0: none.
  double validation_share = 0.1;
  std::uint64_t split_seed = 0;
  bool read_test = true;          // false: test files are left alone; some have no labels
  std::size_t max_labels = 1000;  // more are taken for a mistake in the columns
};

// True if a text belongs to the validation set. The result depends on the text and the seed alone:
// neither the order of rows nor other rows matter, and equal texts are on the same side; for pairs,
// the first text decides.
inline bool is_validation(std::string_view text, double share, std::uint64_t seed) {
  data::ContentHash hash;
  hash.add_text(text);
  const std::uint32_t word = random_word(
      {.seed = seed, .stream = stream_id("text", "split"), .step = 0, .index = hash.value()});
  return static_cast<double>(word) * 0x1p-32 < share;
}

// The class or classes of a row; empty for a number.
inline std::span<const std::string> row_labels(const Row& row, data::LabelKind kind) {
  if (kind == data::LabelKind::one) return {&row.label, 1};
  return kind == data::LabelKind::several ? std::span<const std::string>(row.labels)
                                          : std::span<const std::string>();
}
namespace detail {

// The same as row_labels() for a row whose classes are numbers: calls take(number), which may change the number.
template <class LabelledRow, class Take>
void for_each_label(LabelledRow& row, data::LabelKind kind, const Take& take) {
  if (kind == data::LabelKind::one) take(row.label);
  if (kind == data::LabelKind::several)
    for (auto& label : row.labels) take(label);
}
// A row whose classes have the numbers of number_of(label).
template <class NumberOf>
LabelledRow labelled(Row& row, data::LabelKind kind, const NumberOf& number_of) {
  LabelledRow result{std::move(row.text)};
  for (const std::string& label : row_labels(row, kind)) {
    const std::int64_t number = number_of(label);
    if (kind == data::LabelKind::one) result.label = number;
    if (kind == data::LabelKind::several)
      result.labels.push_back(static_cast<std::int32_t>(number));
  }
  std::ranges::sort(result.labels);
  result.number = row.number;
  result.pair = std::move(row.pair);
  return result;
}

}  // namespace detail

// The rows of files with known labels: a class is an index in `labels`. Adds to `skipped` the rows
// that RowOptions::skip_bad_rows leaves out. Errors of RowReader, and text.label_unseen.
inline std::vector<LabelledRow> read_rows(std::span<const std::string> files,
                                          std::span<const std::string> labels,
                                          const RowOptions& options,
                                          std::vector<SkippedRows>& skipped,
                                          std::string_view operation = "read_rows") {
  std::unordered_map<std::string_view, std::int64_t> numbers;
  for (const std::string& label : labels)
    numbers.emplace(label, static_cast<std::int64_t>(numbers.size()));
  std::vector<LabelledRow> rows;
  Row row;
  RowOptions reading = options;
  reading.known_labels = labels;
  for (const std::string& file : files) {
    RowReader reader(file, reading, operation);
    while (reader.next(row)) {
      rows.push_back(detail::labelled(row, options.labels, [&](const std::string& label) {
        const auto known = numbers.find(label);
        if (known == numbers.end())
          fail(error_id::text_label_unseen, operation,
               "label in line " + std::to_string(row.line) + " of " + soma::quoted(file),
               soma::quoted(label),
               "one of " + std::to_string(labels.size()) + " that are known" +
                   (labels.empty() ? "" : ", such as " + soma::quoted(labels.front())));
        return known->second;
      }));
    }
    for (const SkippedRows& some : reader.skipped()) count_skipped(skipped, some);
  }
  return rows;
}

class LabelledText {
 public:
  std::span<const LabelledRow> train() const { return train_; }
  std::span<const LabelledRow> validation() const { return validation_; }
  std::span<const LabelledRow> test() const { return test_; }  // empty without test files
  // Moves the training rows out: train() is empty from then on.
  std::vector<LabelledRow> release_train() { return std::exchange(train_, {}); }
  // The names of the classes, ascending: 2 before 10 if all are whole numbers, else by bytes. Empty
  // for rows with numbers.
  const std::vector<std::string>& labels() const { return labels_; }
  // The rows that skip_bad_rows left out.
  const std::vector<SkippedRows>& skipped() const { return skipped_; }

 private:
  friend class LabelledTextReader;
  std::vector<LabelledRow> train_, validation_, test_;
  std::vector<std::string> labels_;
  std::vector<SkippedRows> skipped_;
};

// The implementation of read_labelled.
class LabelledTextReader {
 public:
  explicit LabelledTextReader(const ReadOptions& options) : options_(options) {
    if (!(options.validation_share >= 0 && options.validation_share < 1))
      fail(error_id::text_split, operation, "validation_share",
           std::to_string(options.validation_share), "from 0 to below 1");
  }

  LabelledText read(const DataFiles& files) {
    read_train(files.train);
    result_.validation_ = read_part(files.validation);
    if (options_.read_test) result_.test_ = read_part(files.test);
    if (files.validation.empty() && options_.validation_share > 0) split();
    return std::move(result_);
  }

 private:
  static constexpr std::string_view operation = "read_labelled";

  // Labels get numbers as they come, and final numbers when all are known.
  void read_train(const std::vector<std::string>& files) {
    if (files.empty())
      fail(error_id::text_folder, operation, "training files", "none", "one at least");
    std::unordered_map<std::string, std::int64_t> numbers;
    Row row;
    RowOptions reading = options_.rows;
    std::vector<std::string> known;
    for (const std::string& file : files) {
      reading.known_labels = known;
      RowReader reader(file, reading, operation);
      while (reader.next(row)) {
        result_.train_.push_back(detail::labelled(row, kind(), [&](const std::string& label) {
          const auto [at, is_new] =
              numbers.try_emplace(label, static_cast<std::int64_t>(numbers.size()));
          if (is_new && numbers.size() > options_.max_labels)
            fail(error_id::text_label_count, operation, "labels of " + soma::quoted(file),
                 "more than " + std::to_string(options_.max_labels),
                 "at most that (max_labels), in the column of labels");
          return at->second;
        }));
      }
      for (const SkippedRows& skipped : reader.skipped()) count_skipped(result_.skipped_, skipped);
      known.clear();
      for (const auto& [label, number] : numbers) known.push_back(label);
    }
    if (kind() == data::LabelKind::one && numbers.size() < 2)
      fail(error_id::text_one_class, operation, "label of all rows",
           soma::quoted(numbers.begin()->first), "two labels at least");
    if (kind() == data::LabelKind::several && numbers.empty())
      fail(error_id::text_one_class, operation, "labels of all rows", "none", "one label at least");
    std::vector<std::string>& labels = result_.labels_;
    for (const auto& [label, number] : numbers) labels.push_back(label);
    sort_labels(labels);
    check_labels_apart(operation, labels);
    if (kind() == data::LabelKind::several)
      check_label_separator(operation, labels, options_.rows.label_separator);
    std::vector<std::int64_t> sorted(labels.size());
    for (std::size_t i = 0; i < labels.size(); ++i)
      sorted[static_cast<std::size_t>(numbers.find(labels[i])->second)] =
          static_cast<std::int64_t>(i);
    for (LabelledRow& each : result_.train_) {
      detail::for_each_label(each, kind(), [&]<class Number>(Number& number) {
        number = static_cast<Number>(sorted[static_cast<std::size_t>(number)]);
      });
      std::ranges::sort(each.labels);
    }
  }

  std::vector<LabelledRow> read_part(const std::vector<std::string>& files) {
    return read_rows(files, result_.labels_, options_.rows, result_.skipped_, operation);
  }

  // A label whose rows would all go to validation keeps them in training.
  void split() {
    std::vector<LabelledRow> rows = std::move(result_.train_);
    result_.train_.clear();
    std::vector<char> validation(rows.size()), trained(result_.labels_.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      validation[i] = is_validation(rows[i].text, options_.validation_share, options_.split_seed);
      if (validation[i] == 0)
        detail::for_each_label(rows[i], kind(),
                               [&](auto label) { trained[static_cast<std::size_t>(label)] = 1; });
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      bool moves = validation[i] != 0;
      detail::for_each_label(rows[i], kind(), [&](auto label) {
        moves = moves && trained[static_cast<std::size_t>(label)] != 0;
      });
      (moves ? result_.validation_ : result_.train_).push_back(std::move(rows[i]));
    }
    if (result_.validation_.empty()) fail_split();
  }
  // The validation set is empty. The error names the reason: equal texts stay together, and so do a
  // label and its last rows.
  void fail_split() const {
    std::set<std::string_view> texts, chosen;
    for (const LabelledRow& row : result_.train_) {
      texts.insert(row.text);
      if (is_validation(row.text, options_.validation_share, options_.split_seed))
        chosen.insert(row.text);
    }
    std::string given =
        "no row: " +
        (texts.size() == 1 ? "all have the same text"
                           : "there are " + std::to_string(texts.size()) + " different texts") +
        " (equal ones stay together), of which the hash chose ";
    given += chosen.empty() ? "none"
                            : std::to_string(chosen.size()) +
                                  ", with all rows of their labels, which stay in training";
    fail(error_id::text_split, operation,
         "held-out share of " + std::to_string(result_.train_.size()) + " rows", given,
         "some: a larger validation_share, a file of its own, or 0 for none");
  }

  data::LabelKind kind() const { return options_.rows.labels; }

  const ReadOptions& options_;
  LabelledText result_;
};

// Reads all rows of the files into memory. Errors of RowReader, and text.label_count,
// text.one_class (in training), text.label_unseen (in validation or test, but not in training),
// text.split (a share outside 0 to 1, or one that gives no rows), text.folder.
inline LabelledText read_labelled(const DataFiles& files, const ReadOptions& options = {}) {
  return LabelledTextReader(options).read(files);
}
// The same for a file or a folder, which find_data_files divides. If there is no validation file,
// is_validation() chooses a share of the training rows; a label that would lose all its rows keeps
// them.
inline LabelledText read_labelled(const std::string& path, const ReadOptions& options = {}) {
  return read_labelled(find_data_files(path, "read_labelled"), options);
}

}  // namespace soma::text
