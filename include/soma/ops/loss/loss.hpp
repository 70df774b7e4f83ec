#pragma once
// Code that losses share: the reduction of the losses of rows or elements to one number. A total is
// a sum in the order of the shards, then one division.

#include <soma/ops/batch.hpp>
#include <soma/ops/rows/reduce.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace SOMA_NAMESPACE {

namespace detail {

// The sum of the losses of rows, which have the shape `rows`, in the order of the batch's shards.
inline float ordered_sum(Context& context, const Tensor& losses, const Shape& rows,
                         const Sequences& batch) {
  const Tensor each = losses.reshape(rows);
  const bool known = batch.defined() && batch.fits(each);
  std::array<std::size_t, max_rank> sizes{};
  *std::copy(rows.begin(), rows.end(), sizes.begin()) = 1;
  const Shape column(std::span<const std::size_t>(sizes.data(), rows.rank() + 1));
  const Sequences none;
  const Tensor in_order = rows_in_batch_order(context, each.reshape(column), known ? batch : none);
  float total = 0;
  column_sums(context, in_order, known ? batch : none, &total);
  return total;
}

// The divisor of a mean: 0 / 0 for no rows at all is NaN, as in the formula.
inline float loss_denominator(LossReduction reduction, double given, std::size_t counted) {
  if (reduction != LossReduction::mean) return 1;
  return static_cast<float>(given != 0 ? given : static_cast<double>(counted));
}

}  // namespace detail
}  // namespace SOMA_NAMESPACE
