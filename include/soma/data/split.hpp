#pragma once
// split_rows() and split_folds(): divide rows into training sets and validation sets.

#include <soma/data/order.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::data {

struct RowSplit {
  std::vector<std::uint32_t> train, validation;  // numbers of rows, ascending
};

// `validation` gets the nearest whole number to share * count rows, at least one
// and not all. The choice is a pure function of count and seed, the same on every machine. Errors
// data.split (a share that is not between 0 and 1, fewer than two rows), random.index_range (2^32
// rows).
RowSplit split_rows(std::size_t count, double share, std::uint64_t seed);

// A number for each row, by which rows are divided; at most one list is given.
struct SplitBy {
  std::span<const std::int64_t> labels{};  // each class is divided alike
  std::span<const std::int64_t> groups{};  // rows of one number stay together
};

// The same, by labels or groups. With labels each class gives the nearest whole number of its rows;
// with groups the validation rows are as near to the share as whole groups in a random order get.
// Error data.split: also both, a number for some rows only, a single group.
RowSplit split_rows(std::size_t count, double share, std::uint64_t seed, const SplitBy& by);

// Cross-validation: each row is a validation row of one fold. Folds differ in size by at most one
// row, with labels also in each class; with groups, the largest group goes first to the smallest
// fold. Errors data.split (fewer than two folds, or fewer rows or groups than folds, and as above),
// random.index_range.
std::vector<RowSplit> split_folds(std::size_t count, std::size_t folds, std::uint64_t seed,
                                  const SplitBy& by = {});

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/split.ipp>
#endif
