#pragma once
// RowPartition: the rows of a gradient that each rank keeps.

#include <soma/autograd/row_blocks.hpp>
#include <soma/parallel/partition.hpp>
#include <soma/tensor/tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace SOMA_NAMESPACE {

// For a variable, for a parameter that is some of its rows (Parameter), or for a sparse gradient
// with some of these rows. Row numbers count within that tensor.
class RowPartition final : public Partition {
 public:
  explicit RowPartition(const Shape& shape, std::size_t first_row = 0,
                        std::size_t last_row = to_end)
      : all_(shape), first_(first_row), last_((std::min)(last_row, all_.rows)) {}

  // The partition restricted to these rows, ascending, which must stay in place.
  RowPartition only(std::span<const std::int64_t> rows) const;

  SOMA_INLINE Part part(int rank, int ranks) const override;
  std::size_t row_elements() const { return all_.elements; }

 private:
  RowShape all_;
  std::size_t first_, last_;
  bool sparse_ = false;
  std::span<const std::int64_t> present_{};
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/parallel/impl/row_partition.ipp>
#endif
