#pragma once
// TableEncoder: encodes rows of a table as inputs of a network: numbers are standardised,
// categories become ones and zeros, or ids of a table of embeddings. It is fitted on the training
// rows, and saved with the network.

#include <soma/base/json_limits.hpp>
#include <soma/tensor/tensor.hpp>
#include <soma/text/tables/read_table.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace SOMA_NAMESPACE::text {

struct TableEncoderOptions {
  std::vector<std::string> left_out{};  // columns that are no features: names of series, dates
  // True: categories are ids of one table of embeddings (codes()), and encode() has numbers only.
  bool codes = false;
};

// A column of numbers becomes (x - mean) / standard deviation, with the mean and the population
// standard deviation of the fitted rows that have a value. If some fitted rows lack the value, a
// second number follows: 1 for rows without a value. A column of categories becomes a number for
// each category of the fitted rows: 1 for the row's own category, else 0. A missing number is 0,
// the mean; a missing category, or one that no fitted row has, is all zeros. A target of numbers is
// standardised too, one of categories gives classes; it may not be missing.
class TableEncoder {
 public:
  struct Column {
    std::string name{};
    ColumnKind kind = ColumnKind::number;
    double mean = 0, standard_deviation = 1;
    bool missing = false;  // some fitted rows lack it
    std::vector<std::string> categories{};

    std::size_t width() const;
  };

  TableEncoder() = default;
  // All columns except the target and those that are left out are features. Errors table.column (no
  // such target, or none of that name to leave out), table.cell (a fitted row without target),
  // table.rows (no rows, or one that the table lacks).
  static TableEncoder fit(const Table& table, std::string_view target,
                          std::span<const std::uint32_t> rows,
                          const TableEncoderOptions& options = {});

  // The number of features of a row.
  std::size_t width() const;
  const std::vector<Column>& features() const { return features_; }
  const Column& target() const { return target_; }
  // The options of read_table() for a file whose rows are encoded: the kinds of columns must not
  // depend on the cells of that file.
  TableOptions reading() const;

  // fp32 [rows, width()]. Columns are found by name, in any order. Errors table.column (a column is
  // missing, or has another kind), table.rows.
  Tensor encode(Context& context, const Table& table, std::span<const std::uint32_t> rows) const;
  Tensor encode(Context& context, const Table& table) const;
  // int32 [rows, columns of categories]: ids below code_rows(), of which each column has its own;
  // its first one stands for a missing or an unknown category. One Embedding of code_rows() rows
  // and a Flatten make inputs of them. Errors table.column, also without
  // TableEncoderOptions::codes; table.rows.
  Tensor codes(Context& context, const Table& table, std::span<const std::uint32_t> rows) const;
  std::size_t code_rows() const;
  // The names of the classes, if the target is one of categories; else empty.
  const std::vector<std::string>& classes() const { return target_.categories; }
  // fp32 [rows], standardised; int64 [rows] for classes. Errors table.column, table.cell (missing,
  // or a class that no fitted row has), table.rows.
  Tensor targets(Context& context, const Table& table, std::span<const std::uint32_t> rows) const;
  // A standardised target in its own unit.
  double in_units(double standardised) const {
    return standardised * target_.standard_deviation + target_.mean;
  }

  // The encoder as JSON, with digits that read back exactly: version 2 for codes and classes, which
  // version 1 does not have.
  std::string to_json() const;
  // `purpose` names the text in messages. Error table.json: the text is not in the form of
  // to_json(), or holds invalid numbers.
  static TableEncoder from_json(std::string_view text, std::string_view purpose);

  friend bool operator==(const TableEncoder& a, const TableEncoder& b) {
    return a.to_json() == b.to_json();
  }

 private:
  using Json = nlohmann::json;

  static std::vector<std::uint32_t> all_rows(const Table& table);
  static void check_rows(std::string_view operation, const Table& table,
                         std::span<const std::uint32_t> rows);
  void check_target(std::string_view operation, const Table& table,
                    std::span<const std::uint32_t> rows) const;
  static Column fitted(const TableColumn& column, std::span<const std::uint32_t> rows);
  // Limited to the range of float, whatever values rows beyond the fitted ones have.
  static float standardised(const Column& column, double value);
  // The column of that name and kind. Error table.column.
  static const TableColumn& matching(const Table& table, const Column& column);
  // For each category of the table, its index among the known categories; -1: unknown.
  static std::vector<std::int32_t> indices_of(const Column& column, const TableColumn& source);

  static nlohmann::ordered_json json_of(const Column& column);
  // Returns false if the JSON is no such column.
  static bool read(const Json& json, Column& column);

  std::vector<Column> features_{};
  Column target_{};
  bool codes_ = false;
};

}  // namespace SOMA_NAMESPACE::text

#ifndef SOMA_DISPATCH
#include <soma/text/tables/impl/table_encoder.ipp>
#endif
