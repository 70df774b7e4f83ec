#pragma once
// Embedding: rows of a table [V, C] chosen by ids of any shape; [..., C] comes out. The gradient
// has the rows that were touched and no others.

#include <soma/ops/binary.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/samples.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace soma {

namespace detail {

inline std::int64_t index_at(const Tensor& ids, std::size_t i) {
  return ids.dtype() == DType::int32 ? std::int64_t{ids.data<std::int32_t>()[i]}
                                     : ids.data<std::int64_t>()[i];
}

inline void embedding_shape(const ShapeCall& call) {
  const Tensor &table = call.inputs[0], &ids = call.inputs[1];
  check_rank("embedding", "table", table, 2);
  check_floating("embedding", "table", table);
  check_index_type("embedding", "ids", ids);
  std::array<std::size_t, max_rank + 1> sizes{};
  *std::copy(ids.shape().begin(), ids.shape().end(), sizes.begin()) = table.size(1);
  call.outputs[0] = {Shape(std::span<const std::size_t>(sizes.data(), ids.rank() + 1)),
                     table.dtype()};
}

inline void embedding_host(const OperatorCall& call) {
  const Tensor table = call.inputs[0];
  const Tensor ids = contiguous(call.context, call.inputs[1]);
  const std::size_t rows = ids.elements(), columns = table.size(1);
  for (std::size_t i = 0; i < rows; ++i)
    if (const std::int64_t id = index_at(ids, i);
        id < 0 || static_cast<std::uint64_t>(id) >= table.size(0))
      fail(error_id::operator_value, "embedding", "ids[" + std::to_string(i) + "]",
           std::to_string(id), "0 to " + std::to_string(table.size(0)) + " - 1");
  const MatrixTarget to = target(call.outputs[0]);
  for_ranges(call.context, rows, columns, [&](std::size_t begin, std::size_t end) {
    call.context.kernels().embedding.gather({.rows = end - begin,
                                             .columns = columns,
                                             .table = operand(table),
                                             .ids = ids.raw() + begin * size_of(ids.dtype()),
                                             .id_dtype = ids.dtype(),
                                             .y = part(to, begin, 0)});
  });
}

// The rows of dy that belong to each id: for id number k in ascending order, list[starts[k]] to
// list[starts[k + 1]], in ascending order.
struct Occurrences {
  explicit Occurrences(Context& context)
      : list(context.heap()), starts(context.heap()), ids(context.heap()) {}
  HeapVector<std::uint32_t> list;
  HeapVector<std::size_t> starts;
  HeapVector<std::int64_t> ids;
};

inline Occurrences occurrences(Context& context, const Tensor& ids) {
  Occurrences result(context);
  const std::size_t count = ids.elements();
  if (count > 0xFFFFFFFFu)
    fail(error_id::operator_value, "embedding backward", "ids", std::to_string(count),
         "fewer than 2^32");
  result.list.resize(count);
  for (std::size_t i = 0; i < count; ++i) result.list[i] = static_cast<std::uint32_t>(i);
  std::sort(result.list.begin(), result.list.end(), [&](std::uint32_t a, std::uint32_t b) {
    const std::int64_t x = index_at(ids, a), y = index_at(ids, b);
    return x != y ? x < y : a < b;
  });
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t id = index_at(ids, result.list[i]);
    if (!result.ids.empty() && result.ids.back() == id) continue;
    result.ids.push_back(id);
    result.starts.push_back(i);
  }
  result.starts.push_back(count);
  return result;
}

// For each id the sum of its rows of dy: within a shard in ascending order, shards by the fixed
// tree.
inline Gradient sparse_row_sums(Context& context, const Tensor& ids, const Tensor& dy,
                                const Sequences& sequences) {
  const Occurrences all = occurrences(context, ids);
  const std::size_t rows = all.ids.size(), columns = dy.shape().columns();
  Gradient result{Tensor::empty(context, Shape{rows, columns}),
                  Tensor::from(context, std::span<const std::int64_t>(all.ids), Shape{rows})};
  const RowSegments segments(sequences, ids.elements());
  float* out = result.values.mutable_data<float>();
  for_ranges(
      context, rows, columns * (ids.elements() / (std::max)(rows, std::size_t{1}) + 1),
      [&](std::size_t begin, std::size_t end) {
        std::array<std::size_t, max_shards + 1> bounds{};
        const Segments& shards = segments.get();
        for (std::size_t row = begin; row < end; ++row) {
          const std::uint32_t* first = all.list.data() + all.starts[row];
          const std::uint32_t* last = all.list.data() + all.starts[row + 1];
          for (std::size_t s = 0; s <= shards.count; ++s)
            bounds[s] =
                static_cast<std::size_t>(std::lower_bound(first, last, shards.bounds[s]) - first);
          context.kernels().embedding.gather_sum({.columns = columns,
                                                  .x = operand(dy),
                                                  .list = first,
                                                  .count = static_cast<std::size_t>(last - first),
                                                  .segments = {bounds.data(), shards.count},
                                                  .out = out + row * columns});
        }
      });
  return result;
}

// total's rows += those of a sparse gradient.
inline void add_sparse_rows(Context& context, const Tensor& total, const Gradient& sparse) {
  const std::span<const std::int64_t> rows = sparse.rows.span<std::int64_t>();
  for (std::size_t i = 0; i < rows.size(); ++i)
    add_into(context, total.select(0, static_cast<std::size_t>(rows[i])),
             sparse.values.select(0, i));
}

inline Tensor to_dense(Context& context, const Gradient& gradient, const Shape& shape) {
  if (!gradient.sparse()) return gradient.values;
  const Tensor result = Tensor::zeros(context, shape);
  add_sparse_rows(context, result, gradient);
  return result;
}

// The union of the rows of two sparse gradients.
inline Gradient merge_sparse(Context& context, const Gradient& a, const Gradient& b) {
  const std::span<const std::int64_t> x = a.rows.span<std::int64_t>();
  const std::span<const std::int64_t> y = b.rows.span<std::int64_t>();
  HeapVector<std::int64_t> rows(context.heap());
  rows.reserve(x.size() + y.size());
  std::set_union(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(rows));
  Gradient result{Tensor::zeros(context, Shape{rows.size(), a.values.size(1)}),
                  Tensor::from(context, std::span<const std::int64_t>(rows), Shape{rows.size()})};
  for (const Gradient* source : {&a, &b}) {
    std::size_t to = 0;
    const std::span<const std::int64_t> from = source->rows.span<std::int64_t>();
    for (std::size_t i = 0; i < from.size(); ++i) {
      while (rows[to] != from[i]) ++to;
      add_into(context, result.values.select(0, to), source->values.select(0, i));
    }
  }
  return result;
}

inline void embedding_gradient(const GradientCall& call) {
  const Tensor ids = contiguous(call.context, call.inputs[1]);
  const Tensor dy = contiguous(call.context, call.output_gradients[0]);
  Gradient gradient = sparse_row_sums(call.context, ids, dy, call.sequences);
  if (call.attributes.as<EmbeddingSetting>().dense_gradient)
    gradient = {to_dense(call.context, gradient, call.inputs[0].shape()), {}};
  call.input_gradients[0] = gradient;
}

inline OperatorSamples embedding_samples() {
  OperatorSamples result;
  const auto add = [&](std::size_t rows, std::size_t columns, const Shape& ids, bool dense,
                       std::vector<std::size_t> lengths) {
    const double error = static_cast<double>(ids.elements() + 1) * 0x1p-24;
    result.samples.push_back({.name = std::to_string(rows) + " rows, ids " + to_string(ids),
                              .inputs = {{.shape = Shape{rows, columns}},
                                         {.shape = ids,
                                          .dtype = dense ? DType::int64 : DType::int32,
                                          .low = 0,
                                          .high = static_cast<double>(rows - 1)}},
                              .attributes = EmbeddingSetting{dense},
                              .lengths = std::move(lengths),
                              .error = 0,
                              .gradient_error = error});
  };
  add(7, 5, Shape{23}, false, {5, 0, 11, 7});
  add(3, 33, Shape{40}, true, {});
  add(4, 3, Shape{2, 5}, false, {});
  add(4, 3, Shape{0}, true, {});
  result.reference = [](const Sample&, const std::vector<ReferenceTensor>& inputs) {
    const std::size_t columns = inputs[0].shape[1];
    std::vector<std::size_t> sizes(inputs[1].shape.begin(), inputs[1].shape.end());
    sizes.push_back(columns);
    ReferenceTensor y{Shape(sizes), {}};
    for (const double id : inputs[1].values)
      for (std::size_t c = 0; c < columns; ++c)
        y.values.push_back(inputs[0].values[static_cast<std::size_t>(id) * columns + c]);
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

}  // namespace detail

namespace ops {

inline constexpr Operator embedding{.name = "embedding",
                                    .min_inputs = 2,
                                    .max_inputs = 2,
                                    .keeps_inputs = 2,
                                    .shape = &detail::embedding_shape,
                                    .host = &detail::embedding_host,
                                    .gradient = &detail::embedding_gradient,
                                    .samples = &detail::embedding_samples};

}  // namespace ops
}  // namespace soma
