#pragma once
// The functions of split.hpp.

#include <soma/data/split.hpp>

#include <soma/data/order.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::data {

SOMA_INLINE RowSplit split_rows(std::size_t count, double share, std::uint64_t seed) {
  if (!(share > 0 && share < 1) || count < 2)
    fail(error_id::data_split, "split_rows", "share",
         std::to_string(share) + " of " + std::to_string(count) + " rows",
         "a share between 0 and 1, of at least two rows");
  std::vector<std::uint32_t> order = identity_order(count);
  DrawSequence draws(epoch_draw(seed, 0, "split"));
  for (std::size_t i = count; i > 1; --i)
    std::swap(order[i - 1], order[draws.below(static_cast<std::uint32_t>(i))]);
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

}  // namespace SOMA_NAMESPACE::data
