#pragma once
// Embedding bag: for each sequence of ids the sum, or the mean, of their rows of a table [V, C];
// the result is [sequences, C]. The gradient is sparse: it has the touched rows only. Needs
// add_sparse(context).

#include <soma/kernels/sparse/args.hpp>
#include <soma/ops/batch.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/sparse/bag_occurrences.hpp>
#include <soma/ops/sparse/table.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

inline constexpr std::string_view bag_name = "sparse::embedding_bag";

// Inputs table [V, C], ids [n] and optionally weights of the ids, fp32 [n]. The sequences of the
// call are the bags.
inline void embedding_bag_shape(const ShapeCall& call) {
  const Tensor &table = call.inputs[0], &ids = call.inputs[1];
  check_rank(bag_name, "table", table, 2);
  check_floating(bag_name, "table", table);
  check_rank(bag_name, "ids", ids, 1);
  check_index_type(bag_name, "ids", ids);
  check_sequences(bag_name, ids, call.sequences);
  check_no_padding(bag_name, call.sequences);
  if (table.size(0) >> 32 > 1 || (table.size(0) >> 32 == 1 && (table.size(0) & 0xFFFFFFFFu) != 0))
    fail(error_id::tensor_shape, bag_name, "table", table.describe(), "at most 2^32 rows");
  if (const Tensor weights = input_or_none(call.inputs, 2); weights.defined()) {
    check_fp32(bag_name, "weights", weights);
    check_shape(bag_name, "weights", weights, ids.shape());
  }
  call.outputs[0] = {Shape{call.sequences.count(), table.size(1)}, table.dtype()};
}

inline void embedding_bag_host(const OperatorCall& call) {
  Context& context = call.context;
  const SparseKernels& kernels = *sparse_table(context, bag_name).kernels;
  const Tensor& table = call.inputs[0];
  const Tensor ids = contiguous(context, call.inputs[1]);
  Tensor weights = input_or_none(call.inputs, 2);
  if (weights.defined()) weights = contiguous(context, weights);
  check_ids(table, ids);
  const Sequences& bags = call.sequences;
  const std::size_t columns = table.size(1), count = bags.count();
  if (count == 0 || columns == 0) return;
  const TensorRows source = rows_of(context, table);
  const BagArgs args{
      .columns = columns,
      .table = operand(source),
      .ids = ids.raw(),
      .id_dtype = ids.dtype(),
      .weights = floats(weights),
      .offsets = bags.offsets().data(),
      .mean = call.attributes.as<EmbeddingBagSetting>().mode == BagMode::mean,
      .y = target(call.outputs[0]),
  };
  const UnevenRanges ranges(context, count, operations_worth_a_task, [&](std::size_t bag) {
    return (bags.length(bag) + 1) * (columns / 4 + 8);
  });
  ranges.run(context, [&](std::size_t begin, std::size_t end, std::size_t) {
    BagArgs part = args;
    part.first = begin;
    part.last = end;
    kernels.bag(part);
  });
}

// Inputs dy [bags, C], and bags, starts and (optional) weights as in BagOccurrences; the output is,
// for each id, the weighted sum of the dy rows of its bags, in fp32.
inline void embedding_bag_backward_shape(const ShapeCall& call) {
  constexpr std::string_view name = "sparse::embedding_bag_backward";
  const Tensor &dy = call.inputs[0], &list = call.inputs[1], &starts = call.inputs[2];
  check_rank(name, "dy", dy, 2);
  check_floating(name, "dy", dy);
  check_rank(name, "bags", list, 1);
  check_rank(name, "starts", starts, 1);
  if (list.dtype() != DType::int32 || !list.contiguous())
    fail(error_id::tensor_dtype, name, "bags", list.describe(), "contiguous int32");
  if (starts.dtype() != DType::int64 || !starts.contiguous() || starts.size(0) == 0)
    fail(error_id::tensor_dtype, name, "starts", starts.describe(),
         "contiguous int64, one more than there are ids");
  if (const Tensor weights = input_or_none(call.inputs, 3); weights.defined()) {
    check_fp32(name, "weights", weights);
    check_shape(name, "weights", weights, list.shape());
  }
  call.outputs[0] = {Shape{starts.size(0) - 1, dy.size(1)}, DType::fp32};
}

// Error operator.value.
inline void check_bag_lists(const Tensor& list, const Tensor& starts, std::size_t bags) {
  const auto refuse = [&](std::string_view argument, std::int64_t given, std::size_t most) {
    fail(error_id::operator_value, "sparse::embedding_bag_backward", argument,
         std::to_string(given), "ascending numbers from 0 to " + std::to_string(most));
  };
  std::int64_t at = 0;
  for (const std::int64_t start : starts.span<std::int64_t>()) {
    if (start < at || static_cast<std::uint64_t>(start) > list.elements())
      refuse("starts", start, list.elements());
    at = start;
  }
  for (const std::int32_t bag : list.span<std::int32_t>())
    if (bag < 0 || static_cast<std::size_t>(bag) >= bags) refuse("bags", bag, bags);
}

// The rows of dy in fp32, each padded with zeros to a multiple of 16.
inline Tensor padded_rows(Context& context, const Tensor& dy) {
  const Tensor plain = plain_fp32(context, dy);
  const std::size_t rows = dy.size(0), columns = dy.size(1), padded = (columns + 15) / 16 * 16;
  if (columns == padded) return plain;
  const Tensor result = Tensor::zeros(context, Shape{rows, padded});
  float* to = result.mutable_data<float>();
  for (std::size_t row = 0; row < rows; ++row)
    std::memcpy(to + row * padded, plain.data<float>() + row * columns, columns * sizeof(float));
  return result;
}

inline void embedding_bag_backward_host(const OperatorCall& call) {
  Context& context = call.context;
  const SparseKernels& kernels = *sparse_table(context, bag_name).kernels;
  const Tensor &list = call.inputs[1], &starts = call.inputs[2], &sums = call.outputs[0];
  const std::size_t bags = call.inputs[0].size(0), rows = sums.size(0), columns = sums.size(1);
  check_bag_lists(list, starts, bags);
  if (rows == 0 || columns == 0) return;
  const Tensor dy = padded_rows(context, call.inputs[0]);
  // Shards end at borders of bags.
  HeapVector<std::uint32_t> segment_of(bags, context.heap());
  const Sequences& sequences = call.sequences;
  if (sequences.defined() && sequences.count() == bags) {
    const auto bounds = sequences.sequence_bounds();
    for (std::size_t shard = 0; shard + 1 < bounds.size(); ++shard)
      std::fill(segment_of.begin() + bounds[shard], segment_of.begin() + bounds[shard + 1],
                static_cast<std::uint32_t>(shard));
  } else {
    for (std::size_t shard = 0; shard < default_shards; ++shard)
      std::fill(segment_of.begin() + even_border(bags, default_shards, shard),
                segment_of.begin() + even_border(bags, default_shards, shard + 1),
                static_cast<std::uint32_t>(shard));
  }
  const Tensor weights = input_or_none(call.inputs, 3);
  const BagGradientArgs args{.columns = columns,
                             .dy = dy.data<float>(),
                             .dy_stride = dy.size(1),
                             .list = list.data<std::int32_t>(),
                             .weights = floats(weights),
                             .starts = starts.data<std::int64_t>(),
                             .segments = segment_of.data(),
                             .out = sums.mutable_data<float>()};
  for_ranges(context, rows, (columns / 4 + 8) * (list.elements() / rows + 1),
             [&](std::size_t begin, std::size_t end) {
               BagGradientArgs part = args;
               part.first = begin;
               part.last = end;
               kernels.bag_gradient(part);
             });
}

inline void embedding_bag_gradient(const GradientCall& call) {
  Context& context = call.context;
  if (call.wanted.size() > 2 && call.wanted[2])
    fail(error_id::not_differentiable, bag_name, "weights", "a variable with a gradient",
         "numbers of the data (Tape::constant)");
  const Tensor ids = contiguous(context, call.inputs[1]);
  Tensor weights = input_or_none(call.inputs, 2);
  if (weights.defined()) weights = contiguous(context, weights);
  const Sequences& bags = call.sequences;
  const BagOccurrences all = bag_occurrences(context, ids, weights, bags, call.inputs[0].size(0));
  Tensor dy = contiguous(context, call.output_gradients[0]);
  if (call.attributes.as<EmbeddingBagSetting>().mode == BagMode::mean && bags.count() != 0) {
    const Tensor scales = Tensor::empty(context, Shape{bags.count(), 1});
    for (std::size_t bag = 0; bag < bags.count(); ++bag)
      scales.mutable_data<float>()[bag] =
          1.0f / static_cast<float>((std::max)(bags.length(bag), std::size_t{1}));
    // In fp32: these are terms of the table's gradient.
    dy = run(context, context.built_in().of(Binary::multiply), {},
             {plain_fp32(context, dy), scales})[0];
  }
  const SparseOperators& operators = *sparse_table(context, bag_name).operators;
  call.input_gradients[0] = {run(context, *operators.embedding_bag_backward, {},
                                 {dy, all.bags, all.starts, all.weights}, bags)[0],
                             all.ids};
}

// A table that a batch has made is a table still: bags are sequences of ids, or of their weights.
inline void embedding_bag_batch(const BatchCall& call) {
  const std::size_t bags = call.batches[1].defined() ? 1 : 2;
  call.results[0] = call.batches[bags].summary(call.context);
}

}  // namespace detail

namespace ops {

inline constexpr Operator embedding_bag{.name = detail::bag_name,
                                        .min_inputs = 2,
                                        .max_inputs = 3,
                                        .keeps_inputs = 6,
                                        .batch_inputs = 6,
                                        .row_dimensions = RowDimensions::all,
                                        .batch = &detail::embedding_bag_batch,
                                        .shape = &detail::embedding_bag_shape,
                                        .host = &detail::embedding_bag_host,
                                        .gradient = &detail::embedding_bag_gradient,
                                        .wide_gradients = true,
                                        .built_in_samples = true};

inline constexpr Operator embedding_bag_backward{.name = "sparse::embedding_bag_backward",
                                                 .min_inputs = 3,
                                                 .max_inputs = 4,
                                                 .row_inputs = 6,
                                                 .shape = &detail::embedding_bag_backward_shape,
                                                 .host = &detail::embedding_bag_backward_host};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
