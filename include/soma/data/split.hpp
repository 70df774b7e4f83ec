#pragma once
// split_rows(): divides rows into a training set and a validation set.

#include <soma/data/order.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
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

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/split.ipp>
#endif
