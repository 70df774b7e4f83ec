#pragma once
// The functions of labelled_text.hpp.

#include <soma/text/labelled_text.hpp>

#include <soma/data/content_hash.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/text/data_files.hpp>
#include <soma/text/row_reader.hpp>
#include <soma/text/rows/label_counter.hpp>
#include <soma/text/rows/label_names.hpp>

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

namespace detail {

SOMA_INLINE void sort_classes(std::vector<std::int32_t>& classes) {
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
}

}  // namespace detail

SOMA_INLINE bool is_validation(std::string_view text, double share, std::uint64_t seed) {
  data::ContentHash hash;
  hash.add_text(text);
  const std::uint32_t word = random_word(
      {.seed = seed, .stream = stream_id("text", "split"), .step = 0, .index = hash.value()});
  return static_cast<double>(word) * 0x1p-32 < share;
}

SOMA_INLINE std::span<const std::string> row_labels(const Row& row, data::LabelKind kind) {
  if (kind == data::LabelKind::one) return {&row.label, 1};
  return kind == data::LabelKind::several ? std::span<const std::string>(row.labels)
                                          : std::span<const std::string>();
}

SOMA_INLINE std::vector<LabelledRow> read_rows(std::span<const std::string> files,
                                               std::span<const std::string> labels,
                                               const RowOptions& options,
                                               std::vector<SkippedRows>& skipped,
                                               std::string_view operation) {
  const LabelIndex index(labels, options.merge_labels);
  std::vector<LabelledRow> rows;
  Row row;
  RowOptions reading = options;
  reading.known_labels = labels;
  for (const std::string& file : files) {
    RowReader reader(file, reading, operation);
    while (reader.next(row)) {
      rows.push_back(detail::labelled(row, options.labels, [&](const std::string& label) {
        const std::optional<std::size_t> known = index.find(label);
        if (!known)
          fail(error_id::text_label_unseen, operation,
               "label in line " + std::to_string(row.line) + " of " + soma::quoted(reader.file()),
               quoted_label(label), index.wanted_for(label));
        return static_cast<std::int64_t>(*known);
      }));
    }
    for (const SkippedRows& some : reader.skipped()) count_skipped(skipped, some);
  }
  return rows;
}

SOMA_INLINE std::vector<LabelledRow> LabelledText::release_train() {
  return std::exchange(train_, {});
}

SOMA_INLINE LabelledTextReader::LabelledTextReader(const ReadOptions& options) : options_(options) {
  if (!(options.validation_share >= 0 && options.validation_share < 1))
    fail(error_id::text_split, operation, "validation_share",
         std::to_string(options.validation_share), "from 0 to below 1");
}

SOMA_INLINE LabelledText LabelledTextReader::read(const DataFiles& files) {
  read_train(files.train);
  result_.validation_ = read_part(files.validation);
  if (options_.read_test) result_.test_ = read_part(files.test);
  if (files.validation.empty() && options_.validation_share > 0) split();
  return std::move(result_);
}

SOMA_INLINE void LabelledTextReader::read_train(const std::vector<std::string>& files) {
  if (files.empty())
    fail(error_id::text_folder, operation, "training files", "none", "one at least");
  LabelCounter counter(operation,
                       options_.max_labels != 0 ? options_.max_labels : most_labels(kind()));
  Row row;
  RowOptions reading = options_.rows;
  std::vector<std::string> known;
  for (const std::string& file : files) {
    reading.known_labels = known;
    RowReader reader(file, reading, operation);
    for (const std::string& label : reader.classes()) counter.add_class(label, reader.file());
    while (reader.next(row))
      result_.train_.push_back(detail::labelled(row, kind(), [&](const std::string& label) {
        return static_cast<std::int64_t>(counter.add(label, reader.file(), row.line));
      }));
    for (const SkippedRows& skipped : reader.skipped()) count_skipped(result_.skipped_, skipped);
    known = counter.labels();
    if (result_.columns_.texts.empty()) result_.columns_ = reader.columns();
  }
  LabelCounter::Classes classes = counter.finish(options_.rows);
  for (LabelledRow& each : result_.train_) {
    detail::for_each_label(each, kind(), [&]<class Number>(Number& number) {
      number = static_cast<Number>(classes.of_number[static_cast<std::size_t>(number)]);
    });
    detail::sort_classes(each.labels);
  }
  result_.labels_ = std::move(classes.names);
}

SOMA_INLINE std::vector<LabelledRow> LabelledTextReader::read_part(
    const std::vector<std::string>& files) {
  RowOptions reading = options_.rows;
  reading.known_columns = result_.columns_;
  return read_rows(files, result_.labels_, reading, result_.skipped_, operation);
}

SOMA_INLINE void LabelledTextReader::split() {
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

SOMA_INLINE void LabelledTextReader::fail_split() const {
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
       "validation share of " + std::to_string(result_.train_.size()) + " rows", given,
       "some: a larger validation_share, a file of its own, or 0 for none");
}

SOMA_INLINE LabelledText read_labelled(const DataFiles& files, const ReadOptions& options) {
  return LabelledTextReader(options).read(files);
}

SOMA_INLINE LabelledText read_labelled(const std::string& path, const ReadOptions& options) {
  return read_labelled(find_data_files(path, "read_labelled"), options);
}

}  // namespace SOMA_NAMESPACE::text
