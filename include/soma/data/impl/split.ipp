#pragma once
// The functions of split.hpp.

#include <soma/data/split.hpp>

#include <soma/data/order.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::data::detail {

// The rows of each number, in the order in which they come.
SOMA_INLINE std::vector<std::vector<std::uint32_t>> rows_of_each(
    std::span<const std::int64_t> numbers, std::span<const std::uint32_t> order) {
  std::map<std::int64_t, std::size_t> places;
  std::vector<std::vector<std::uint32_t>> rows;
  for (const std::uint32_t row : order) {
    const auto [place, added] = places.try_emplace(numbers[row], rows.size());
    if (added) rows.emplace_back();
    rows[place->second].push_back(row);
  }
  return rows;
}

SOMA_INLINE void check_share(std::size_t count, double share) {
  if (!(share > 0 && share < 1) || count < 2)
    fail(error_id::data_split, "split_rows", "share",
         std::to_string(share) + " of " + std::to_string(count) + " rows",
         "a share between 0 and 1, of at least two rows");
}

SOMA_INLINE void check_split(std::string_view operation, std::size_t count, const SplitBy& by) {
  if (!by.labels.empty() && !by.groups.empty())
    fail(error_id::data_split, operation, "by", "labels and groups", "one of them");
  for (const std::span<const std::int64_t> numbers : {by.labels, by.groups})
    if (!numbers.empty() && numbers.size() != count)
      fail(error_id::data_split, operation, "by",
           std::to_string(numbers.size()) + " numbers for " + std::to_string(count) + " rows",
           "one for each row");
}

// The folds' validation rows as the two lists of each fold.
SOMA_INLINE std::vector<RowSplit> splits_of(std::span<const std::size_t> fold_of_row,
                                            std::size_t folds) {
  std::vector<RowSplit> splits(folds);
  for (std::size_t row = 0; row < fold_of_row.size(); ++row)
    for (std::size_t fold = 0; fold < folds; ++fold)
      (fold == fold_of_row[row] ? splits[fold].validation : splits[fold].train)
          .push_back(static_cast<std::uint32_t>(row));
  return splits;
}

}  // namespace SOMA_NAMESPACE::data::detail

namespace SOMA_NAMESPACE::data {

SOMA_INLINE RowSplit split_rows(std::size_t count, double share, std::uint64_t seed) {
  detail::check_share(count, share);
  const std::vector<std::uint32_t> order = shuffled_order(count, epoch_draw(seed, 0, "split"));
  const auto wanted = static_cast<std::size_t>(std::nearbyint(share * static_cast<double>(count)));
  const std::size_t validation = std::clamp(wanted, std::size_t{1}, count - 1);
  RowSplit split;
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(validation);
  split.validation.assign(order.begin(), end);
  split.train.assign(end, order.end());
  std::sort(split.validation.begin(), split.validation.end());
  std::sort(split.train.begin(), split.train.end());
  return split;
}

SOMA_INLINE RowSplit split_rows(std::size_t count, double share, std::uint64_t seed,
                                const SplitBy& by) {
  detail::check_split("split_rows", count, by);
  if (by.labels.empty() && by.groups.empty()) return split_rows(count, share, seed);
  detail::check_share(count, share);
  const std::vector<std::uint32_t> order = shuffled_order(count, epoch_draw(seed, 0, "split"));
  std::vector<bool> chosen(count);
  std::size_t size = 0;
  const auto choose = [&](std::span<const std::uint32_t> rows) {
    for (const std::uint32_t row : rows) chosen[row] = true;
    size += rows.size();
  };
  if (!by.labels.empty()) {
    for (const std::vector<std::uint32_t>& rows : detail::rows_of_each(by.labels, order)) {
      const double wanted = std::nearbyint(share * static_cast<double>(rows.size()));
      choose(std::span(rows).first(static_cast<std::size_t>(wanted)));
    }
  } else {
    const auto groups = detail::rows_of_each(by.groups, order);
    if (groups.size() < 2)
      fail(error_id::data_split, "split_rows", "groups", std::to_string(groups.size()),
           "at least two");
    const double wanted = share * static_cast<double>(count);
    for (const std::vector<std::uint32_t>& rows : groups) {
      const double with = static_cast<double>(size + rows.size());
      if (size != 0 && with - wanted > wanted - static_cast<double>(size)) continue;
      if (size + rows.size() < count) choose(rows);
    }
  }
  if (size == 0) choose(std::span(order).first(1));
  RowSplit split;
  for (std::size_t row = 0; row < count; ++row)
    (chosen[row] ? split.validation : split.train).push_back(static_cast<std::uint32_t>(row));
  if (split.train.empty()) {
    split.train.push_back(split.validation.back());
    split.validation.pop_back();
  }
  return split;
}

SOMA_INLINE std::vector<RowSplit> split_folds(std::size_t count, std::size_t folds,
                                              std::uint64_t seed, const SplitBy& by) {
  detail::check_split("split_folds", count, by);
  const std::vector<std::uint32_t> order = shuffled_order(count, epoch_draw(seed, 0, "folds"));
  std::vector<std::vector<std::uint32_t>> parts;
  if (!by.groups.empty())
    parts = detail::rows_of_each(by.groups, order);
  else if (!by.labels.empty())
    parts = detail::rows_of_each(by.labels, order);
  else
    parts.push_back(order);
  const std::size_t units = by.groups.empty() ? count : parts.size();
  if (folds < 2 || units < folds)
    fail(error_id::data_split, "split_folds", "folds",
         std::to_string(folds) + " of " + std::to_string(units) +
             (by.groups.empty() ? " rows" : " groups"),
         "2 to as many as there are");
  std::vector<std::size_t> fold_of_row(count);
  if (by.groups.empty()) {  // dealt in turn, from class to class
    std::size_t next = 0;
    for (const std::vector<std::uint32_t>& rows : parts)
      for (const std::uint32_t row : rows) fold_of_row[row] = next++ % folds;
  } else {
    std::stable_sort(parts.begin(), parts.end(),
                     [](const auto& a, const auto& b) { return a.size() > b.size(); });
    std::vector<std::size_t> sizes(folds);
    for (const std::vector<std::uint32_t>& rows : parts) {
      const auto smallest = std::min_element(sizes.begin(), sizes.end());
      for (const std::uint32_t row : rows)
        fold_of_row[row] = static_cast<std::size_t>(smallest - sizes.begin());
      *smallest += rows.size();
    }
  }
  return detail::splits_of(fold_of_row, folds);
}

}  // namespace SOMA_NAMESPACE::data
