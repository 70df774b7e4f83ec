#pragma once
// LabelledText: texts in memory with a class each, for training and validation; or with any number
// of classes, or with a number (RowOptions::labels).

#include <soma/data/content_hash.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/text/data_files.hpp>
#include <soma/text/row_reader.hpp>
#include <soma/text/rows/label_counter.hpp>

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

namespace SOMA_NAMESPACE::text {

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
  bool read_test = true;  // false: test files are left alone; some have no labels
  // More are taken for a mistake in the columns; 0: most_labels().
  std::size_t max_labels = 0;
};

// 1,000 for one label a row. Rows with several may well have many more: 100,000.
inline constexpr std::size_t most_labels(data::LabelKind kind) {
  return kind == data::LabelKind::several ? 100'000 : 1000;
}

// True if a text belongs to the validation set. The result depends on the text and the seed alone:
// neither the order of rows nor other rows matter, and equal texts are on the same side; for pairs,
// the first text decides.
bool is_validation(std::string_view text, double share, std::uint64_t seed);

// The class or classes of a row; empty for a number.
std::span<const std::string> row_labels(const Row& row, data::LabelKind kind);
namespace detail {

// The same as row_labels() for a row whose classes are numbers: calls take(number), which may
// change the number.
template <class LabelledRow, class Take>
void for_each_label(LabelledRow& row, data::LabelKind kind, const Take& take) {
  if (kind == data::LabelKind::one) take(row.label);
  if (kind == data::LabelKind::several)
    for (auto& label : row.labels) take(label);
}
// Ascending, each once: merged labels may come twice.
void sort_classes(std::vector<std::int32_t>& classes);
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
  sort_classes(result.labels);
  result.number = row.number;
  result.pair = std::move(row.pair);
  return result;
}

}  // namespace detail

// The rows of files with known labels: a class is an index in `labels`. Adds to `skipped` the rows
// that RowOptions::skip_bad_rows leaves out. With RowOptions::merge_labels another spelling of a
// class is that class. Errors of RowReader, and text.label_unseen.
std::vector<LabelledRow> read_rows(std::span<const std::string> files,
                                   std::span<const std::string> labels, const RowOptions& options,
                                   std::vector<SkippedRows>& skipped,
                                   std::string_view operation = "read_rows");

class LabelledText {
 public:
  std::span<const LabelledRow> train() const { return train_; }
  std::span<const LabelledRow> validation() const { return validation_; }
  std::span<const LabelledRow> test() const { return test_; }  // empty without test files
  // Moves the training rows out: train() is empty from then on.
  std::vector<LabelledRow> release_train();
  // The names of the classes, ascending: 2 before 10 if all are whole numbers, else by bytes. Empty
  // for rows with numbers.
  const std::vector<std::string>& labels() const { return labels_; }
  // The rows that skip_bad_rows left out.
  const std::vector<SkippedRows>& skipped() const { return skipped_; }
  // The columns of the training rows.
  const KnownColumns& columns() const { return columns_; }

 private:
  friend class LabelledTextReader;
  std::vector<LabelledRow> train_, validation_, test_;
  std::vector<std::string> labels_;
  std::vector<SkippedRows> skipped_;
  KnownColumns columns_;
};

// The implementation of read_labelled.
class LabelledTextReader {
 public:
  explicit LabelledTextReader(const ReadOptions& options);

  LabelledText read(const DataFiles& files);

 private:
  static constexpr std::string_view operation = "read_labelled";

  // Labels get numbers as they come, and final numbers when all are known.
  void read_train(const std::vector<std::string>& files);

  std::vector<LabelledRow> read_part(const std::vector<std::string>& files);

  // A label whose rows would all go to validation keeps them in training.
  void split();
  // The validation set is empty. The error names the reason: equal texts stay together, and so do a
  // label and its last rows.
  void fail_split() const;

  data::LabelKind kind() const { return options_.rows.labels; }

  const ReadOptions& options_;
  LabelledText result_;
};

// Reads all rows of the files into memory. Errors of RowReader, of LabelCounter (in training),
// text.label_unseen (in validation or test, but not in training), text.split (a share outside 0 to
// 1, or one that gives no rows), text.folder.
LabelledText read_labelled(const DataFiles& files, const ReadOptions& options = {});
// The same for a file or a folder, which find_data_files divides. If there is no validation file,
// is_validation() chooses a share of the training rows; a label that would lose all its rows keeps
// them.
LabelledText read_labelled(const std::string& path, const ReadOptions& options = {});

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/impl/labelled_text.ipp>
#endif
