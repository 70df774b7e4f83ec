#pragma once
// Sums and means over dimensions. Sums over the rows of a batch follow its shards, so their order
// does not depend on the machine; every sum is fp32 in the fixed order of kernels/reduce/args.hpp.

#include <soma/ops/batch.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// The shape of the result; summed dimensions disappear.
inline Shape reduced_shape(const Shape& shape, std::uint32_t dimensions) {
  Shape result = shape;
  for (std::size_t i = shape.rank(); i-- > 0;)
    if ((dimensions >> i & 1) != 0) result = result.without(i);
  return result;
}

inline void reduce_shape(const ShapeCall& call) {
  check_floating("reduce", "x", call.inputs[0]);
  call.outputs[0] = {
      reduced_shape(call.inputs[0].shape(), call.attributes.as<ReduceSetting>().dimensions),
      DType::fp32};
}

// The number of additions in the time of one simple operation.
inline constexpr std::size_t sums_at_once = 8;

// Sums of each segment separately, on several threads; the tree then adds them as segments of one
// row.
inline void sums_by_segments(Context& context, const ColumnSumArgs& args) {
  const Segments& segments = args.segments;
  HeapVector<float> partial(context.heap());
  partial.resize(segments.count * args.columns);
  const UnevenRanges ranges(context, segments.count, operations_worth_a_task, [&](std::size_t i) {
    return (segments.bounds[i + 1] - segments.bounds[i]) * args.columns / sums_at_once;
  });
  ranges.run(context, [&](std::size_t begin, std::size_t end, std::size_t) {
    for (std::size_t i = begin; i < end; ++i)
      context.kernels().reduce.column_sums({.rows = segments.bounds[i + 1] - segments.bounds[i],
                                            .columns = args.columns,
                                            .x = part(args.x, segments.bounds[i], 0),
                                            .out = partial.data() + i * args.columns});
  });
  HeapVector<std::size_t> rows(context.heap());
  rows.resize(segments.count + 1);
  for (std::size_t i = 0; i <= segments.count; ++i) rows[i] = i;
  parallel(context, 1, [&](int) {
    context.kernels().reduce.column_sums({.rows = segments.count,
                                          .columns = args.columns,
                                          .x = {.data = partial.data(), .row_stride = args.columns},
                                          .segments = {rows.data(), segments.count},
                                          .out = args.out});
  });
}

// out = sums over the rows of a matrix, cut into segments. Threads share columns, or segments if
// there are few columns.
inline void column_sums(Context& context, const ColumnSumArgs& all) {
  const std::size_t rows = all.rows, columns = all.columns;
  constexpr std::size_t group = 16;  // columns are cut at whole cache lines
  const std::size_t groups = (columns + group - 1) / group;
  const auto width = static_cast<std::size_t>(context.executor().width);
  if (groups != 0 && groups < width && all.segments.count > 1 &&
      rows * columns / sums_at_once > operations_worth_a_task)
    return sums_by_segments(context, all);
  for_ranges(context, groups, rows * group, [&](std::size_t begin, std::size_t end) {
    const std::size_t first = begin * group, last = (std::min)(columns, end * group);
    ColumnSumArgs args = all;
    args.columns = last - first;
    args.x = part(all.x, 0, first);
    args.out = all.out + first;
    context.kernels().reduce.column_sums(args);
  });
}
inline void column_sums(Context& context, const Tensor& matrix, const Segments& segments,
                        float* out) {
  const TensorRows x = rows_of(context, matrix);
  column_sums(context, {.rows = x.shape().rows(),
                        .columns = x.shape().columns(),
                        .x = operand(x),
                        .segments = segments,
                        .out = out});
}

// The same for the rows of a batch, each with its inner rows.
inline void column_sums(Context& context, const Tensor& matrix, const Sequences& batch,
                        float* out) {
  const RowSegments segments(batch, matrix.shape().rows());
  column_sums(context, matrix, segments.get(), out);
}

// Sums over the last `trailing` dimensions, row by row.
inline Tensor row_sums(Context& context, const Tensor& tensor, std::size_t trailing) {
  const Tensor x = contiguous(context, tensor);
  Shape left = x.shape();
  std::size_t columns = 1;
  for (std::size_t i = 0; i < trailing; ++i) {
    columns *= left.columns();
    left = left.without(left.rank() - 1);
  }
  const Tensor result = Tensor::empty(context, left);
  float* out = result.mutable_data<float>();
  const TensorRows source = rows_of(context, x);
  MatrixOperand rows = operand(source);
  rows.row_stride = columns;
  for_ranges(context, left.elements(), columns, [&](std::size_t begin, std::size_t end) {
    context.kernels().reduce.rows({.reduction = Reduction::sum,
                                   .rows = end - begin,
                                   .columns = columns,
                                   .x = part(rows, begin, 0),
                                   .out = out + begin});
  });
  return result;
}

// Sums over the leading dimensions: over the rows of a batch that leads, over all rows of a tensor
// without a batch, or, in the order of the elements, over what lies between the rows of a batch.
inline void sum_leading(const OperatorCall& call, const Tensor& x, std::size_t leading,
                        bool over_batch) {
  const Tensor& out = call.outputs[0];
  const std::size_t rows = elements_between(x.shape(), 0, leading);
  const Tensor matrix = contiguous(call.context, x).reshape(Shape{rows, out.elements()});
  float* to = out.mutable_data<float>();
  if (over_batch || !call.sequences.defined())
    return column_sums(call.context, matrix, call.sequences, to);
  const std::size_t whole[] = {0, rows};
  column_sums(call.context, matrix, Segments{whole, 1}, to);
}

// First the last dimensions, each row separately; then the other dimensions, as sums over rows. The
// rows of a batch are summed last, in the order of its shards.
inline void reduce_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<ReduceSetting>();
  const Sequences& batch = call.sequences;
  Tensor x = call.inputs[0];
  std::uint32_t dimensions = setting.dimensions;
  const std::size_t all = x.elements(), kept = call.outputs[0].elements();
  const auto summed = [&](std::size_t i) { return (dimensions >> i & 1) != 0; };
  std::size_t at = batch.defined() ? batch.place().dimension : x.rank();  // the batch
  const bool over_batch = batch.defined() && summed(at);
  if (over_batch && batch.place().outer != 1) {
    x = contiguous(call.context, x).reshape(with_cut(x.shape(), batch));
    const std::uint32_t before = (std::uint32_t{1} << (at + 1)) - 1;
    dimensions = (dimensions & before) | (dimensions & ~(before >> 1)) << 1;
    ++at;
  }
  std::size_t trailing = 0;
  while (trailing + 1 < x.rank() && summed(x.rank() - 1 - trailing) &&
         !(over_batch && x.rank() - 1 - trailing == at))
    ++trailing;
  if (trailing > 0) x = row_sums(call.context, x, trailing);
  std::size_t leading = 0;
  const auto lead = [&](std::size_t i) {
    for (std::size_t j = i; j > leading; --j) x = x.transpose(j, j - 1);
    ++leading;
  };
  if (over_batch) lead(at);
  for (std::size_t i = 0; i < x.rank(); ++i) {
    if (over_batch && i == 0) continue;  // the batch
    const std::size_t before = over_batch && i <= at ? i - 1 : i;
    if (summed(before)) lead(i);
  }
  if (leading == 0)
    copy(plain_fp32(call.context, x), call.outputs[0]);
  else
    sum_leading(call, x, leading, over_batch);
  if (setting.mean) {
    const float count = static_cast<float>(kept == 0 ? 0 : all / kept);
    float* out = call.outputs[0].mutable_data<float>();
    for (std::size_t i = 0; i < kept; ++i) out[i] /= count;
  }
}

// Dimensions before the one of the batch disappear.
inline void reduce_batch(const BatchCall& call) {
  const std::uint32_t dimensions = call.attributes.as<ReduceSetting>().dimensions;
  const Sequences& batch = call.batches[0];
  BatchPlace place = batch.place();
  if ((dimensions >> place.dimension & 1) != 0) return;
  for (std::size_t i = batch.place().dimension; i-- > 0;)
    if ((dimensions >> i & 1) != 0) --place.dimension;
  call.results[0] = batch.at(place);
}

// The gradient: dy repeated over the summed dimensions, divided by the count for a mean.
inline void reduce_gradient(const GradientCall& call) {
  const auto& setting = call.attributes.as<ReduceSetting>();
  const Shape shape = call.inputs[0].shape();
  Tensor dy = contiguous(call.context, call.output_gradients[0]);
  std::size_t summed = 1;
  Shape with_ones = shape;
  for (std::size_t i = 0; i < shape.rank(); ++i)
    if ((setting.dimensions >> i & 1) != 0) {
      summed *= shape[i];
      with_ones = with_ones.with(i, 1);
    }
  if (setting.mean) {
    dy = clone(call.context, dy);
    for (float& value : dy.mutable_span<float>()) value /= static_cast<float>(summed);
  }
  call.input_gradients[0].values = clone(call.context, dy.reshape(with_ones).broadcast_to(shape));
}

}  // namespace detail

namespace ops {

inline constexpr Operator reduce{.name = "reduce",
                                 .batch = &detail::reduce_batch,
                                 .shape = &detail::reduce_shape,
                                 .host = &detail::reduce_host,
                                 .gradient = &detail::reduce_gradient,
                                 .wide_gradients = true,
                                 .built_in_samples = true};

}  // namespace ops

namespace detail {

// The gradient of a broadcast: sums over the dimensions along which `shape` was repeated. `batch`
// is that of the tensor.
inline Tensor sum_to(Context& context, const Tensor& tensor, const Shape& shape,
                     const Sequences& batch) {
  if (tensor.shape() == shape) return tensor;
  const std::size_t added = tensor.rank() - shape.rank();
  std::uint32_t dimensions = 0;
  for (std::size_t i = 0; i < tensor.rank(); ++i)
    if (i < added || (shape[i - added] == 1 && tensor.size(i) != 1))
      dimensions |= std::uint32_t{1} << i;
  return run(context, ops::reduce, ReduceSetting{dimensions, false}, {tensor}, batch)[0].reshape(
      shape);
}

}  // namespace detail
}  // namespace SOMA_NAMESPACE
