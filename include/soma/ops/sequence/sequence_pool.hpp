#pragma once
// sequence_pool: [rows, C] to [sequences, C]: the mean of each sequence's rows, or the largest
// element of each column. Rows of padding do not count. A mean is summed in double and rounded
// once; among equal elements the first is the largest, and NaN is larger than all numbers.

#include <soma/ops/batch.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/sequence/settings.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cstddef>

namespace SOMA_NAMESPACE {

namespace detail {

// Error ragged.empty_sequence: a sequence without rows of its own.
inline void sequence_pool_shape(const ShapeCall& call) {
  const Tensor& x = call.inputs[0];
  check_rank("sequence_pool", "x", x, 2);
  check_floating("sequence_pool", "x", x);
  check_sequences("sequence_pool", x, call.sequences);
  check_first_rows("sequence_pool", call.sequences);
  call.outputs[0] = {x.shape().with(0, call.sequences.count()), x.dtype()};
}

// The row of the largest element of a column, among rows begin to end - 1.
inline std::size_t largest_row(const float* x, std::size_t columns, std::size_t column,
                               std::size_t begin, std::size_t end) {
  std::size_t best = begin;
  for (std::size_t row = begin + 1; row < end; ++row) {
    const float value = x[row * columns + column], least = x[best * columns + column];
    if (value > least || (value != value && least == least)) best = row;
  }
  return best;
}

inline void sequence_pool_plain(const OperatorCall& call) {
  const Sequences& batch = call.sequences;
  const bool largest = call.attributes.as<SequencePoolSetting>().largest;
  const std::size_t columns = call.inputs[0].size(1);
  const float* x = call.inputs[0].data<float>();
  float* out = call.outputs[0].mutable_data<float>();
  const std::size_t work = columns * (batch.count() == 0 ? 1 : 1 + batch.rows() / batch.count());
  for_ranges(call.context, batch.count(), work, [&](std::size_t first, std::size_t last) {
    HeapVector<double> sums(call.context.heap());
    sums.resize(columns);
    for (std::size_t i = first; i < last; ++i) {
      const std::size_t begin = batch.begin(i), rows = batch.used(i);
      float* y = out + i * columns;
      if (largest) {
        for (std::size_t c = 0; c < columns; ++c)
          y[c] = x[largest_row(x, columns, c, begin, begin + rows) * columns + c];
        continue;
      }
      std::fill_n(sums.data(), columns, 0.0);
      for (std::size_t row = begin; row < begin + rows; ++row)
        for (std::size_t c = 0; c < columns; ++c)
          sums[c] += static_cast<double>(x[row * columns + c]);
      for (std::size_t c = 0; c < columns; ++c)
        y[c] = static_cast<float>(sums[c] / static_cast<double>(rows));
    }
  });
}
inline void sequence_pool_host(const OperatorCall& call) {
  with_plain_tensors(call, 0, sequence_pool_plain);
}

inline void sequence_pool_gradient(const GradientCall& call) {
  with_plain_tensors(call, [](const GradientCall& plain_call) {
    const Sequences& batch = plain_call.sequences;
    const bool largest = plain_call.attributes.as<SequencePoolSetting>().largest;
    const std::size_t columns = plain_call.inputs[0].size(1);
    const Tensor dy = contiguous(plain_call.context, plain_call.output_gradients[0]);
    const Tensor dx = Tensor::zeros(plain_call.context, plain_call.inputs[0].shape());
    const float* x = plain_call.inputs[0].data<float>();
    float* to = dx.mutable_data<float>();
    for_ranges(plain_call.context, batch.count(), columns,
               [&](std::size_t first, std::size_t last) {
                 for (std::size_t i = first; i < last; ++i) {
                   const std::size_t begin = batch.begin(i), rows = batch.used(i);
                   const float* from = dy.data<float>() + i * columns;
                   for (std::size_t c = 0; c < columns; ++c) {
                     if (largest) {
                       to[largest_row(x, columns, c, begin, begin + rows) * columns + c] = from[c];
                       continue;
                     }
                     const float part = from[c] / static_cast<float>(rows);
                     for (std::size_t row = begin; row < begin + rows; ++row)
                       to[row * columns + c] = part;
                   }
                 }
               });
    plain_call.input_gradients[0].values = dx;
  });
}

}  // namespace detail

namespace ops {

inline constexpr Operator sequence_pool{.name = "sequence_pool",
                                        .keeps_inputs = 1,
                                        .batch = &detail::batch_of_summaries,
                                        .shape = &detail::sequence_pool_shape,
                                        .host = &detail::sequence_pool_host,
                                        .gradient = &detail::sequence_pool_gradient,
                                        .wide_gradients = true,
                                        .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
