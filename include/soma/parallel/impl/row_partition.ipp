#pragma once
// The functions of row_partition.hpp.

#include <soma/parallel/row_partition.hpp>

#include <soma/autograd/row_blocks.hpp>
#include <soma/parallel/partition.hpp>
#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace SOMA_NAMESPACE {

SOMA_INLINE RowPartition RowPartition::only(std::span<const std::int64_t> rows) const {
  RowPartition result = *this;
  result.sparse_ = true;
  result.present_ = rows;
  return result;
}

SOMA_INLINE Part RowPartition::part(int rank, int ranks) const {
  const Part all = owned_rows(all_.rows, all_.elements, rank, ranks);
  const std::size_t begin = (std::clamp)(all.begin, first_, last_);
  const std::size_t end = (std::clamp)(all.end(), first_, last_);
  if (!sparse_) return {begin - first_, end - begin};
  const auto index = [&](std::size_t row) {
    const auto number = static_cast<std::int64_t>(row - first_);
    return static_cast<std::size_t>(std::lower_bound(present_.begin(), present_.end(), number) -
                                    present_.begin());
  };
  return {index(begin), index(end) - index(begin)};
}

}  // namespace SOMA_NAMESPACE
