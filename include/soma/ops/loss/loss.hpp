#pragma once
// Code that losses share: the reduction of the losses of rows or elements to one number. A total is
// a sum in the order of the shards, then one division.

#include <soma/ops/rows/reduce.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

namespace detail {

// Sum of a vector in the order of the rows' shards.
inline float ordered_sum(Context& context, const Tensor& values, const Sequences& sequences) {
  float total = 0;
  column_sums(context, values.reshape(Shape{values.elements(), 1}), sequences, &total);
  return total;
}

// The divisor of a mean: 0 / 0 for no rows at all is NaN, as in the formula.
inline float loss_denominator(LossReduction reduction, double given, std::size_t counted) {
  if (reduction != LossReduction::mean) return 1;
  return static_cast<float>(given != 0 ? given : static_cast<double>(counted));
}

}  // namespace detail
}  // namespace SOMA_NAMESPACE
