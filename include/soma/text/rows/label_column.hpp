#pragma once
// LabelColumnFinder: which of two columns has the labels, if no option and no name says it.

#include <soma/text/row_options.hpp>
#include <soma/text/rows/column_names.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace SOMA_NAMESPACE::text {

// Counts the different values of both columns in the first rows. The second column is the usual
// place of labels. Memory: a number for each value.
class LabelColumnFinder {
 public:
  enum class Verdict : std::uint8_t {
    second,  // the usual place
    first,   // certainly the first column: few values, and long texts in the other column
    unclear  // the second column does not look like labels, and the first does not look better
  };

  explicit LabelColumnFinder(const RowOptions& options)
      : kind_(options.labels), known_(options.known_labels.begin(), options.known_labels.end()) {}

  bool needs_rows() const { return rows_ < most_rows; }
  // Adds a row of two fields.
  void add(detail::Fields row);
  Verdict verdict() const;
  // "2 values in column 1, 400 in column 2, in 400 rows".
  std::string counts() const;

 private:
  static constexpr std::size_t most_rows = 5000;
  // With fewer rows each may have a class of its own.
  static constexpr std::size_t enough_rows = 10;

  struct Column {
    std::unordered_map<std::size_t, std::size_t> values{};  // rows of each value's hash
    std::size_t most = 0;                                   // rows of the most frequent value
    std::size_t bytes = 0, spaced = 0, known = 0, numbers = 0;
  };

  data::LabelKind kind_;
  std::unordered_set<std::string_view> known_;
  Column columns_[2]{};
  std::size_t rows_ = 0;
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/rows/impl/label_column.ipp>
#endif
