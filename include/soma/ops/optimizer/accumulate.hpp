#pragma once
// Adds gradients, dense and sparse, in the order in which they come. Additions are operators that
// write their first input, as optimizer steps are.

#include <soma/ops/checks.hpp>
#include <soma/ops/element/binary.hpp>
#include <soma/ops/operator.hpp>
#include <soma/ops/run.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>

namespace SOMA_NAMESPACE {

namespace detail {

inline void check_total(std::string_view operation, const Tensor& total) {
  check_floating(operation, "total", total);
  if (!total.contiguous())
    fail(error_id::tensor_not_contiguous, operation, "total", total.describe() + " with gaps",
         "row-major elements");
}

// Inputs total and more, of the same shape: total += more.
inline void accumulate_shape(const ShapeCall& call) {
  check_total("accumulate", call.inputs[0]);
  check_floating("accumulate", "more", call.inputs[1]);
  check_shape("accumulate", "more", call.inputs[1], call.inputs[0].shape());
}
inline void accumulate_host(const OperatorCall& call) {
  add_into(call.context, call.inputs[0], call.inputs[1]);
}

// Inputs total [R, ...], values [r, ...], rows [r] and, if the total itself covers some rows only,
// total_rows [R]. Row numbers are int64, ascending, each once. Row rows[i] of the total += row i of
// values.
inline void accumulate_rows_shape(const ShapeCall& call) {
  constexpr std::string_view name = "accumulate rows";
  const Tensor &total = call.inputs[0], &values = call.inputs[1], &rows = call.inputs[2];
  check_total(name, total);
  check_min_rank(name, "total", total, 1);
  check_floating(name, "values", values);
  const auto check_rows = [&](std::string_view argument, const Tensor& numbers) {
    check_rank(name, argument, numbers, 1);
    if (numbers.dtype() != DType::int64 || !numbers.contiguous())
      fail(error_id::tensor_dtype, name, argument, numbers.describe(), "contiguous int64");
  };
  check_rows("rows", rows);
  check_shape(name, "values", values, total.shape().with(0, rows.size(0)));
  if (call.inputs.size() < 4 || !call.inputs[3].defined()) return;
  check_rows("total_rows", call.inputs[3]);
  check_shape(name, "total_rows", call.inputs[3], Shape{total.size(0)});
}

// Calls each(i, row): row i of values belongs to row `row` of the total. Error operator.value.
template <class Each>
void for_each_row_pair(const Tensor& total, const Tensor& rows, const Tensor& total_rows,
                       const Each& each) {
  const std::size_t count = total.size(0);
  const std::span<const std::int64_t> wanted = rows.span<std::int64_t>();
  std::size_t at = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (total_rows.defined())
      while (at < count && total_rows.data<std::int64_t>()[at] != wanted[i]) ++at;
    else
      at = wanted[i] < 0 ? count : static_cast<std::size_t>(wanted[i]);
    if (at >= count)
      fail(error_id::operator_value, "accumulate rows", "rows[" + std::to_string(i) + "]",
           std::to_string(wanted[i]), "a row of total, " + total.describe());
    each(i, at);
  }
}

inline void add_rows(Context& context, const Tensor& total, const Gradient& more,
                     const Tensor& total_rows = {}) {
  for_each_row_pair(total, more.rows, total_rows, [&](std::size_t i, std::size_t row) {
    add_into(context, total.select(0, row), more.values.select(0, i));
  });
}

inline void accumulate_rows_host(const OperatorCall& call) {
  add_rows(call.context, call.inputs[0], {call.inputs[1], call.inputs[2]},
           call.inputs.size() > 3 ? call.inputs[3] : Tensor());
}

}  // namespace detail

namespace ops {

inline constexpr Operator accumulate{.name = "accumulate",
                                     .min_inputs = 2,
                                     .max_inputs = 2,
                                     .outputs = 0,
                                     .shape = &detail::accumulate_shape,
                                     .host = &detail::accumulate_host};

inline constexpr Operator accumulate_rows{.name = "accumulate rows",
                                          .min_inputs = 3,
                                          .max_inputs = 4,
                                          .outputs = 0,
                                          .row_inputs = 12,
                                          .shape = &detail::accumulate_rows_shape,
                                          .host = &detail::accumulate_rows_host};

}  // namespace ops

namespace detail {

inline Tensor to_dense(Context& context, const Gradient& gradient, const Shape& shape) {
  if (!gradient.sparse()) return gradient.values;
  const Tensor result = Tensor::zeros(context, shape);
  run(context, ops::accumulate_rows, {}, {result, gradient.values, gradient.rows});
  return result;
}

// The union of the rows of two sparse gradients.
inline Gradient merge_sparse(Context& context, const Gradient& a, const Gradient& b) {
  const std::span<const std::int64_t> x = a.rows.span<std::int64_t>();
  const std::span<const std::int64_t> y = b.rows.span<std::int64_t>();
  HeapVector<std::int64_t> rows(context.heap());
  rows.reserve(x.size() + y.size());
  std::set_union(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(rows));
  const Gradient result{
      Tensor::zeros(context, a.values.shape().with(0, rows.size())),
      Tensor::from(context, std::span<const std::int64_t>(rows), Shape{rows.size()})};
  for (const Gradient* source : {&a, &b})
    run(context, ops::accumulate_rows, {},
        {result.values, source->values, source->rows, result.rows});
  return result;
}

// total += more. Adds in place only if no one else can see the total.
inline void accumulate(Context& context, Gradient& total, Gradient more) {
  if (!more.defined()) return;
  if (!total.defined()) {
    total = std::move(more);
    return;
  }
  if (total.sparse() && more.sparse()) {
    total = merge_sparse(context, total, more);
    return;
  }
  if (total.sparse()) std::swap(total, more);  // a sum of two numbers has no order
  if (!total.values.storage().unique() || !total.values.contiguous())
    total.values = clone(context, total.values);
  if (more.sparse())
    run(context, ops::accumulate_rows, {}, {total.values, more.values, more.rows});
  else
    run(context, ops::accumulate, {}, {total.values, more.values});
}

}  // namespace detail
}  // namespace SOMA_NAMESPACE
