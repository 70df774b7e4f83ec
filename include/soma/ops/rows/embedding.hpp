#pragma once
// Embedding: picks rows of a table [V, C] by ids of any shape; the result is [..., C]. The gradient
// is sparse: it has the touched rows only. A row of padding may be left without gradient.

#include <soma/ops/optimizer/accumulate.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

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
  const std::int64_t padding = call.attributes.as<EmbeddingSetting>().padding;
  if (padding >= 0 && static_cast<std::uint64_t>(padding) >= table.size(0))
    fail(error_id::operator_value, "embedding", "padding", std::to_string(padding),
         "-1 or a row of the table, " + table.describe());
}

// Error operator.value.
inline void check_ids(const Tensor& table, const Tensor& ids) {
  const std::size_t rows = table.size(0), count = ids.elements();
  const auto check = [&](const auto* values) {
    for (std::size_t i = 0; i < count; ++i)
      if (const std::int64_t id = values[i]; id < 0 || static_cast<std::uint64_t>(id) >= rows)
        fail(error_id::operator_value, "embedding", "ids[" + std::to_string(i) + "]",
             std::to_string(id), "0 to " + std::to_string(rows) + " - 1");
  };
  if (ids.dtype() == DType::int32)
    check(ids.data<std::int32_t>());
  else
    check(ids.data<std::int64_t>());
}

inline void embedding_host(const OperatorCall& call) {
  const Tensor table = call.inputs[0];
  const Tensor ids = contiguous(call.context, call.inputs[1]);
  const std::size_t rows = ids.elements(), columns = table.size(1);
  check_ids(table, ids);
  const TensorRows source = rows_of(call.context, table);
  const MatrixTarget to = target(call.outputs[0]);
  for_ranges(call.context, rows, columns, [&](std::size_t begin, std::size_t end) {
    call.context.kernels().embedding.gather({.rows = end - begin,
                                             .columns = columns,
                                             .table = operand(source),
                                             .ids = ids.raw() + begin * size_of(ids.dtype()),
                                             .id_dtype = ids.dtype(),
                                             .y = part(to, begin, 0)});
  });
}

// The rows of dy for each id: id number k, in ascending order, has the rows list[starts[k]] to
// list[starts[k + 1]], in ascending order.
struct Occurrences {
  Tensor list;    // int32, of all rows of dy
  Tensor starts;  // int64, one more than ids
  Tensor ids;     // int64
};

// Rows of the id `padding` stand at the end of the list, and no id has them; -1: none.
inline Occurrences occurrences(Context& context, const Tensor& ids, std::int64_t padding = -1) {
  const std::size_t count = ids.elements();
  if (count > 0x7FFFFFFFu)
    fail(error_id::operator_value, "embedding backward", "ids", std::to_string(count),
         "fewer than 2^31");
  Occurrences result;
  result.list = Tensor::empty(context, Shape{count}, DType::int32);
  const std::span<std::int32_t> list = result.list.mutable_span<std::int32_t>();
  // Many comparisons follow: a copy of plain numbers makes them fast.
  const Tensor copied = Tensor::empty(context, Shape{count}, DType::int64);
  const std::span<std::int64_t> values = copied.mutable_span<std::int64_t>();
  std::size_t left_out = 0;
  for (std::size_t i = 0; i < count; ++i) {
    list[i] = static_cast<std::int32_t>(i);
    values[i] = index_at(ids, i);
    if (values[i] == padding) {
      values[i] = (std::numeric_limits<std::int64_t>::max)();
      ++left_out;
    }
  }
  const auto id = [&](std::int32_t i) { return values[static_cast<std::size_t>(i)]; };
  std::sort(list.begin(), list.end(), [&](std::int32_t a, std::int32_t b) {
    const std::int64_t x = id(a), y = id(b);
    return x != y ? x < y : a < b;
  });
  const auto begins = [&](std::size_t i) { return i == 0 || id(list[i]) != id(list[i - 1]); };
  const std::size_t used = count - left_out;
  std::size_t rows = 0;
  for (std::size_t i = 0; i < used; ++i) rows += begins(i) ? 1u : 0u;
  result.ids = Tensor::empty(context, Shape{rows}, DType::int64);
  result.starts = Tensor::empty(context, Shape{rows + 1}, DType::int64);
  auto* numbers = result.ids.mutable_data<std::int64_t>();
  auto* starts = result.starts.mutable_data<std::int64_t>();
  for (std::size_t i = 0; i < used; ++i) {
    if (!begins(i)) continue;
    *numbers++ = id(list[i]);
    *starts++ = static_cast<std::int64_t>(i);
  }
  *starts = static_cast<std::int64_t>(used);
  return result;
}

// Inputs dy, and list and starts as in Occurrences; the output is the sum of each id's rows of dy,
// in fp32.
inline void embedding_backward_shape(const ShapeCall& call) {
  constexpr std::string_view name = "embedding backward";
  const Tensor &dy = call.inputs[0], &list = call.inputs[1], &starts = call.inputs[2];
  check_min_rank(name, "dy", dy, 1);
  check_floating(name, "dy", dy);
  check_shape(name, "list", list, Shape{dy.shape().rows()});
  check_rank(name, "starts", starts, 1);
  if (list.dtype() != DType::int32 || !list.contiguous())
    fail(error_id::tensor_dtype, name, "list", list.describe(), "contiguous int32");
  if (starts.dtype() != DType::int64 || !starts.contiguous() || starts.size(0) == 0)
    fail(error_id::tensor_dtype, name, "starts", starts.describe(),
         "contiguous int64, one more than there are ids");
  call.outputs[0] = {Shape{starts.size(0) - 1, dy.shape().columns()}, DType::fp32};
}

// Error operator.value.
inline void check_occurrences(const Tensor& list, const Tensor& starts) {
  const auto rows = static_cast<std::int64_t>(list.elements());
  const auto refuse = [&](std::string_view argument, std::int64_t given) {
    fail(error_id::operator_value, "embedding backward", argument, std::to_string(given),
         "the " + std::to_string(rows) + " rows of dy, in ascending order for each id");
  };
  std::int64_t at = 0;
  for (const std::int64_t start : starts.span<std::int64_t>()) {
    if (start < at || start > rows) refuse("starts", start);
    at = start;
  }
  for (const std::int32_t row : list.span<std::int32_t>())
    if (row < 0 || row >= rows) refuse("list", row);
}

// Within a shard rows are added in ascending order; shards are added in the fixed tree.
inline void embedding_backward_host(const OperatorCall& call) {
  Context& context = call.context;
  const TensorRows dy = rows_of(context, call.inputs[0]);
  const Tensor &list = call.inputs[1], &sums = call.outputs[0];
  const std::int64_t* starts = call.inputs[2].data<std::int64_t>();
  check_occurrences(list, call.inputs[2]);
  // The kernel reads unsigned numbers.
  const auto* numbers = reinterpret_cast<const std::uint32_t*>(list.data<std::int32_t>());
  const std::size_t rows = sums.size(0), columns = sums.size(1);
  const RowSegments segments(call.sequences, list.elements());
  float* out = sums.mutable_data<float>();
  for_ranges(
      context, rows, columns * (list.elements() / (std::max)(rows, std::size_t{1}) + 1),
      [&](std::size_t begin, std::size_t end) {
        std::array<std::size_t, max_shards + 1> bounds{};
        const Segments& shards = segments.get();
        for (std::size_t row = begin; row < end; ++row) {
          const std::uint32_t* first = numbers + starts[row];
          const std::uint32_t* last = numbers + starts[row + 1];
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
}

// Ids of a batch give its rows; columns of a table that have a batch are the last dimension.
inline void embedding_batch(const BatchCall& call) {
  const Sequences &table = call.batches[0], &ids = call.batches[1];
  if (ids.defined()) {
    call.results[0] = ids;
  } else if (table.place().dimension == 1) {
    BatchPlace place = table.place();
    place.dimension = call.inputs[1].rank();
    call.results[0] = table.at(place);
  }
}

inline void embedding_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

inline constexpr Operator embedding_backward{.name = "embedding backward",
                                             .min_inputs = 3,
                                             .max_inputs = 3,
                                             .row_inputs = 4,
                                             .shape = &detail::embedding_backward_shape,
                                             .host = &detail::embedding_backward_host};

inline constexpr Operator embedding{.name = "embedding",
                                    .min_inputs = 2,
                                    .max_inputs = 2,
                                    .keeps_inputs = 2,
                                    .batch_inputs = 2,
                                    .row_dimensions = RowDimensions::all,
                                    .batch = &detail::embedding_batch,
                                    .shape = &detail::embedding_shape,
                                    .host = &detail::embedding_host,
                                    .gradient = &detail::embedding_gradient,
                                    .wide_gradients = true,
                                    .built_in_samples = true};

}  // namespace ops

inline void detail::embedding_gradient(const GradientCall& call) {
  const auto& setting = call.attributes.as<EmbeddingSetting>();
  const Occurrences all =
      occurrences(call.context, contiguous(call.context, call.inputs[1]), setting.padding);
  const Tensor dy = contiguous(call.context, call.output_gradients[0]);
  Gradient gradient{
      run(call.context, ops::embedding_backward, {}, {dy, all.list, all.starts}, call.sequences)[0],
      all.ids};
  if (setting.dense_gradient)
    gradient = {to_dense(call.context, gradient, call.inputs[0].shape()), {}};
  call.input_gradients[0] = gradient;
}

}  // namespace SOMA_NAMESPACE
