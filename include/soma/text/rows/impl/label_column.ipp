#pragma once
// The functions of label_column.hpp.

#include <soma/text/rows/label_column.hpp>

#include <soma/text/columns.hpp>
#include <soma/text/rows/label_names.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE void LabelColumnFinder::add(detail::Fields row) {
  if (!needs_rows()) return;
  ++rows_;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string_view cell = trimmed_label(row[i]);
    Column& column = columns_[i];
    column.most = (std::max)(column.most, ++column.values[std::hash<std::string_view>{}(cell)]);
    column.bytes += cell.size();
    column.spaced += cell.find(' ') != cell.npos ? 1u : 0u;
    column.numbers += real_number(cell) ? 1u : 0u;
    column.known += known_.count(cell);
  }
}

SOMA_INLINE auto LabelColumnFinder::verdict() const -> Verdict {
  const auto& [first, second] = columns_;
  if (rows_ == 0) return Verdict::second;
  if (kind_ == data::LabelKind::number)
    return first.numbers == rows_ && second.numbers != rows_ ? Verdict::first : Verdict::second;
  if (first.known != 0 || second.known != 0)
    return first.known > second.known ? Verdict::first : Verdict::second;
  const auto is_few = [&](const Column& column) { return 2 * column.values.size() <= rows_; };
  const bool longer = second.bytes > first.bytes;
  if (is_few(first) && longer && !is_few(second)) return Verdict::first;
  const bool evident = is_few(first) && second.values.size() >= 4 * first.values.size() &&
                       second.bytes >= 2 * first.bytes && 2 * second.spaced > rows_;
  if (evident) return Verdict::first;
  // Many rare classes may stand beside a frequent one; sets of several labels may all differ.
  const bool usual = is_few(second) || 4 * second.most >= rows_ || rows_ < enough_rows ||
                     kind_ == data::LabelKind::several;
  return usual ? Verdict::second : Verdict::unclear;
}

SOMA_INLINE std::string LabelColumnFinder::counts() const {
  return std::to_string(columns_[0].values.size()) + " values in column 1, " +
         std::to_string(columns_[1].values.size()) + " in column 2, in " + std::to_string(rows_) +
         " rows";
}

}  // namespace SOMA_NAMESPACE::text
