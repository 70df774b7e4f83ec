#pragma once
// The options of a FastClassifier, the rules that choose them from the rows of a training set, and
// its file config.json.

#include <soma/base/error.hpp>
#include <soma/io/mapped_file.hpp>
#include <soma/io/record_json.hpp>
#include <soma/models/input_form.hpp>
#include <soma/text/hashed_features.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

struct FastOptions {
  std::vector<std::string> labels{};  // class names
  text::HashedFeatureOptions features{};
  std::size_t width = 16;  // columns of the embedding table
  std::uint64_t seed = 0;  // for the initial values of the linear layer
  InputForm input{};       // of the training rows; the folder remembers it
};

// The learning rate of row-wise Adagrad. From 0.1 to 0.5 the accuracy changes less than between two
// seeds.
inline constexpr double fast_learning_rate = 0.2;

// The inputs of the rules.
struct TextSetSize {
  std::size_t rows = 0, classes = 0;
  std::uint64_t bytes = 0;           // bytes of all texts
  std::uint64_t unspaced_bytes = 0;  // of those, the bytes that unspaced_bytes() counts
};

// The bytes of a text in scripts that write no spaces between words: Chinese characters, kana,
// Thai, Lao, Khmer, Burmese.
std::uint64_t unspaced_bytes(std::string_view content);

// The rules, found on four sets of 4 thousand to 26 million bytes (docs/sparse_training.md):
// - A row of the table is a cache line of 16 numbers for up to 16 classes, 32 numbers for up to 64
//   and 64 beyond: more classes need more directions.
// - Texts of at most 400 bytes on average also give parts of words, 5 characters long: short texts
//   have few words that training has seen.
// - If more than half of the bytes are in scripts without spaces between words, the features are
//   characters and runs of 2 and 3 of them: a word of such a text would be a sentence.
// - The table has the largest power of two of rows that is not above the bytes of the texts, which
//   is about the features; at least 2^12, and at most what `memory` bytes hold.
FastOptions fast_options_for(const TextSetSize& size, std::vector<std::string> labels,
                             std::uint64_t seed, std::size_t memory = std::size_t{32} << 20);

// Passes over the rows: 3 with fewer than 4,500 rows, or fewer than 500 for each class; otherwise
// 2.
inline std::uint64_t fast_epochs_for(const TextSetSize& size) {
  return size.rows < 4500 || size.rows < 500 * size.classes ? 3 : 2;
}

// ---- config.json

}  // namespace SOMA_NAMESPACE::models

namespace SOMA_NAMESPACE::detail {

inline constexpr std::string_view fast_model_type = "soma_fast_classifier";

// Labels contain no end of line.
std::string joined_labels(const std::vector<std::string>& labels);

Record read_fast_config(const std::string& folder);

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE::models {

Record to_record(const FastOptions& options);

// Errors record.missing, record.type, models.config_type, models.config_value, text.features.
FastOptions fast_options_of(const Record& record, std::string_view folder);

// The same of a linear classifier, whose hashes have version 2: older programs refuse it.
Record fast_linear_record(const FastOptions& options);
FastOptions fast_linear_options_of(const Record& record, std::string_view folder);

// True if the folder has a config.json of a FastClassifier. False without a config.json, or with
// that of another model.
bool is_fast_classifier(const std::string& folder);

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/fast_options.ipp>
#endif
