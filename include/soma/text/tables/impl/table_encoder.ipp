#pragma once
// The functions of table_encoder.hpp.

#include <soma/base/contains.hpp>
#include <soma/text/tables/table_encoder.hpp>

#include <soma/base/json_limits.hpp>
#include <soma/tensor/tensor.hpp>
#include <soma/text/tables/read_table.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE std::size_t TableEncoder::Column::width() const {
  return kind == ColumnKind::category ? categories.size() : missing ? 2 : 1;
}

SOMA_INLINE TableEncoder TableEncoder::fit(const Table& table, std::string_view target,
                                           std::span<const std::uint32_t> rows,
                                           const TableEncoderOptions& options) {
  check_rows("TableEncoder::fit", table, rows);
  TableEncoder encoder;
  encoder.codes_ = options.codes;
  for (const std::string& name : options.left_out) table.column(name);  // or it fails
  for (const TableColumn& column : table.columns)
    if (column.name != target && !contains(options.left_out, column.name))
      encoder.features_.push_back(fitted(column, rows));
  encoder.target_ = fitted(table.column(target), rows);
  encoder.check_target("TableEncoder::fit", table, rows);
  return encoder;
}

SOMA_INLINE std::size_t TableEncoder::width() const {
  std::size_t width = 0;
  for (const Column& column : features_)
    if (!codes_ || column.kind == ColumnKind::number) width += column.width();
  return width;
}

SOMA_INLINE TableOptions TableEncoder::reading() const {
  TableOptions options;
  for (const Column& column : features_)
    (column.kind == ColumnKind::number ? options.numbers : options.categories)
        .push_back(column.name);
  if (!target_.categories.empty()) options.categories.push_back(target_.name);
  return options;
}

SOMA_INLINE Tensor TableEncoder::encode(Context& context, const Table& table,
                                        std::span<const std::uint32_t> rows) const {
  check_rows("TableEncoder::encode", table, rows);
  const std::size_t columns = width();
  Tensor result = Tensor::zeros(context, Shape{rows.size(), columns});
  const std::span<float> numbers = result.mutable_span<float>();
  std::size_t first = 0;
  for (const Column& column : features_) {
    if (codes_ && column.kind == ColumnKind::category) continue;
    const TableColumn& source = matching(table, column);
    const std::vector<std::int32_t> indices = indices_of(column, source);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      float* to = numbers.data() + i * columns + first;
      if (column.kind == ColumnKind::category) {
        const std::int32_t code = source.codes[rows[i]];
        const std::int32_t index = code < 0 ? -1 : indices[static_cast<std::size_t>(code)];
        if (index >= 0) to[index] = 1;
      } else if (const double value = source.numbers[rows[i]]; !std::isnan(value)) {
        to[0] = standardised(column, value);
      } else if (column.missing) {
        to[1] = 1;
      }
    }
    first += column.width();
  }
  return result;
}

SOMA_INLINE Tensor TableEncoder::encode(Context& context, const Table& table) const {
  return encode(context, table, all_rows(table));
}

SOMA_INLINE std::size_t TableEncoder::code_rows() const {
  std::size_t rows = 0;
  for (const Column& column : features_)
    if (column.kind == ColumnKind::category) rows += column.categories.size() + 1;
  return codes_ ? rows : 0;
}

SOMA_INLINE Tensor TableEncoder::codes(Context& context, const Table& table,
                                       std::span<const std::uint32_t> rows) const {
  check_rows("TableEncoder::codes", table, rows);
  std::size_t columns = 0, at = 0;
  for (const Column& column : features_) columns += column.kind == ColumnKind::category ? 1u : 0u;
  if (!codes_ || columns == 0)
    fail(error_id::table_column, "TableEncoder::codes", "encoder",
         codes_ ? "one without categories" : "one whose categories are ones and zeros",
         "TableEncoderOptions::codes, and columns of categories");
  Tensor result = Tensor::zeros(context, Shape{rows.size(), columns}, DType::int32);
  const std::span<std::int32_t> ids = result.mutable_span<std::int32_t>();
  std::int32_t first = 0;
  for (const Column& column : features_) {
    if (column.kind != ColumnKind::category) continue;
    const TableColumn& source = matching(table, column);
    const std::vector<std::int32_t> indices = indices_of(column, source);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::int32_t code = source.codes[rows[i]];
      const std::int32_t index = code < 0 ? -1 : indices[static_cast<std::size_t>(code)];
      ids[i * columns + at] = first + 1 + index;
    }
    first += static_cast<std::int32_t>(column.categories.size() + 1);
    ++at;
  }
  return result;
}

SOMA_INLINE Tensor TableEncoder::targets(Context& context, const Table& table,
                                         std::span<const std::uint32_t> rows) const {
  check_rows("TableEncoder::targets", table, rows);
  check_target("TableEncoder::targets", table, rows);
  const TableColumn& source = table.column(target_.name);
  if (target_.kind == ColumnKind::category) {
    const std::vector<std::int32_t> indices = indices_of(target_, source);
    Tensor result = Tensor::zeros(context, Shape{rows.size()}, DType::int64);
    for (std::size_t i = 0; i < rows.size(); ++i)
      result.mutable_span<std::int64_t>()[i] =
          indices[static_cast<std::size_t>(source.codes[rows[i]])];
    return result;
  }
  Tensor result = Tensor::zeros(context, Shape{rows.size()});
  for (std::size_t i = 0; i < rows.size(); ++i)
    result.mutable_span<float>()[i] = standardised(target_, source.numbers[rows[i]]);
  return result;
}

SOMA_INLINE std::string TableEncoder::to_json() const {
  nlohmann::ordered_json features = nlohmann::ordered_json::array();
  for (const Column& column : features_) features.push_back(json_of(column));
  const bool second = codes_ || target_.kind == ColumnKind::category;
  nlohmann::ordered_json json{
      {"version", second ? 2 : 1}, {"target", json_of(target_)}, {"features", features}};
  if (second) json["codes"] = codes_;
  return json.dump(1);
}

SOMA_INLINE TableEncoder TableEncoder::from_json(std::string_view text, std::string_view purpose) {
  const auto failed = [&](std::string_view given) {
    fail(error_id::table_json, "TableEncoder::from_json", purpose, given,
         "the text that TableEncoder::to_json() wrote");
  };
  if (!soma::may_be_tree(text)) failed("a zero byte, or lists in lists without end");
  const Json root = Json::parse(text, nullptr, false);
  TableEncoder encoder;
  const bool known = root.is_object() && root.contains("version") &&
                     (root["version"] == 1 || root["version"] == 2);
  if (!known || !root.contains("features") || !root["features"].is_array())
    failed("no object of version 1 or 2 with features");
  const bool second = root["version"] == 2;
  if (!root.contains("target") || !read(root["target"], encoder.target_) ||
      (!second && encoder.target_.kind != ColumnKind::number))
    failed("no target, or a target that is not valid");
  if (second) {
    if (!root.contains("codes") || !root["codes"].is_boolean()) failed("no value of codes");
    encoder.codes_ = root["codes"].get<bool>();
  }
  for (const Json& column : root["features"])
    if (!read(column, encoder.features_.emplace_back()))
      failed("a feature that cannot be, number " + std::to_string(encoder.features_.size()));
  return encoder;
}

SOMA_INLINE std::vector<std::uint32_t> TableEncoder::all_rows(const Table& table) {
  std::vector<std::uint32_t> rows(table.rows);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint32_t>(i);
  return rows;
}

SOMA_INLINE void TableEncoder::check_rows(std::string_view operation, const Table& table,
                                          std::span<const std::uint32_t> rows) {
  if (rows.empty()) fail(error_id::table_rows, operation, "rows", "none", "one at least");
  for (const std::uint32_t row : rows)
    if (row >= table.rows)
      fail(error_id::table_rows, operation, "row", std::to_string(row),
           "below " + std::to_string(table.rows) + ", the rows of " + soma::quoted(table.source));
}

SOMA_INLINE void TableEncoder::check_target(std::string_view operation, const Table& table,
                                            std::span<const std::uint32_t> rows) const {
  const TableColumn& source = matching(table, target_);
  const auto refuse = [&](std::uint32_t row, const std::string& given, std::string_view wanted) {
    fail(error_id::table_cell, operation,
         "target " + soma::quoted(target_.name) + " in row " + std::to_string(row + 1) + " of " +
             soma::quoted(table.source),
         given, wanted);
  };
  if (target_.kind == ColumnKind::number) {
    for (const std::uint32_t row : rows)
      if (std::isnan(source.numbers[row])) refuse(row, "missing", "a number");
    return;
  }
  const std::vector<std::int32_t> indices = indices_of(target_, source);
  for (const std::uint32_t row : rows) {
    const std::int32_t code = source.codes[row];
    if (code < 0) refuse(row, "missing", "a class");
    if (indices[static_cast<std::size_t>(code)] < 0)
      refuse(row, soma::quoted(source.categories[static_cast<std::size_t>(code)]),
             "a class that a fitted row has");
  }
}

SOMA_INLINE auto TableEncoder::fitted(const TableColumn& column,
                                      std::span<const std::uint32_t> rows) -> Column {
  Column result{.name = column.name, .kind = column.kind};
  if (column.kind == ColumnKind::category) {
    std::vector<char> seen(column.categories.size());
    for (const std::uint32_t row : rows)
      if (column.codes[row] >= 0) seen[static_cast<std::size_t>(column.codes[row])] = 1;
    for (std::size_t i = 0; i < seen.size(); ++i)
      if (seen[i] != 0) result.categories.push_back(column.categories[i]);
    return result;
  }
  // Welford's update: large numbers do not cancel.
  double count = 0, squares = 0;
  for (const std::uint32_t row : rows) {
    const double value = column.numbers[row];
    if (std::isnan(value)) {
      result.missing = true;
      continue;
    }
    count += 1;
    const double before = value - result.mean;
    result.mean += before / count;
    squares += before * (value - result.mean);
  }
  const double deviation = count > 0 ? std::sqrt(squares / count) : 0;
  if (!std::isfinite(deviation) || !std::isfinite(result.mean))
    fail(error_id::table_cell, "TableEncoder::fit", "column " + soma::quoted(column.name),
         "of numbers so large that their squares overflow a double", "smaller numbers");
  if (deviation > 0) result.standard_deviation = deviation;  // a column of one value stays at 0
  return result;
}

SOMA_INLINE float TableEncoder::standardised(const Column& column, double value) {
  constexpr double most = 3e38;
  return static_cast<float>(
      std::clamp((value - column.mean) / column.standard_deviation, -most, most));
}

SOMA_INLINE const TableColumn& TableEncoder::matching(const Table& table, const Column& column) {
  const TableColumn& found = table.column(column.name);
  if (found.kind != column.kind)
    fail(error_id::table_column, "TableEncoder",
         "column " + soma::quoted(column.name) + " of " + soma::quoted(table.source),
         found.kind == ColumnKind::number ? "one of numbers" : "one of categories",
         std::string(column.kind == ColumnKind::number ? "numbers" : "categories") +
             ", as where it was fitted (reading() says so to read_table)");
  return found;
}

SOMA_INLINE std::vector<std::int32_t> TableEncoder::indices_of(const Column& column,
                                                               const TableColumn& source) {
  std::vector<std::int32_t> indices;
  for (const std::string& name : source.categories) {
    const auto found = std::find(column.categories.begin(), column.categories.end(), name);
    indices.push_back(found == column.categories.end()
                          ? -1
                          : static_cast<std::int32_t>(found - column.categories.begin()));
  }
  return indices;
}

SOMA_INLINE nlohmann::ordered_json TableEncoder::json_of(const Column& column) {
  nlohmann::ordered_json json{{"name", column.name}};
  if (column.kind == ColumnKind::category) {
    json["categories"] = column.categories;
  } else {
    json["mean"] = column.mean;
    json["deviation"] = column.standard_deviation;
    json["missing"] = column.missing;
  }
  return json;
}

SOMA_INLINE bool TableEncoder::read(const Json& json, Column& column) {
  if (!json.is_object() || !json.contains("name") || !json["name"].is_string()) return false;
  column.name = json["name"].get<std::string>();
  if (json.contains("categories")) {
    column.kind = ColumnKind::category;
    if (!json["categories"].is_array()) return false;
    for (const Json& name : json["categories"]) {
      if (!name.is_string()) return false;
      column.categories.push_back(name.get<std::string>());
    }
    return true;
  }
  if (!json.contains("mean") || !json["mean"].is_number() || !json.contains("deviation") ||
      !json["deviation"].is_number() || !json.contains("missing") || !json["missing"].is_boolean())
    return false;
  column.mean = json["mean"].get<double>();
  column.standard_deviation = json["deviation"].get<double>();
  column.missing = json["missing"].get<bool>();
  return std::isfinite(column.mean) && column.standard_deviation > 0 &&
         std::isfinite(column.standard_deviation);
}

}  // namespace SOMA_NAMESPACE::text
