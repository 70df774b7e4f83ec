#pragma once
// The functions of support.hpp.

#include <soma/ops/support.hpp>

#include <soma/kernels/table.hpp>
#include <soma/ops/checks.hpp>
#include <soma/ops/operator.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/runtime/parallel.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE KeptTensors other_operand(std::uint32_t wanted) {
  return {.inputs = (wanted & 1) << 1 | (wanted >> 1 & 1)};
}

SOMA_INLINE Tensor input_or_none(std::span<const Tensor> inputs, std::size_t index) {
  return index < inputs.size() ? inputs[index] : Tensor();
}

SOMA_INLINE Tensor as_rows(Context& context, const Tensor& tensor) {
  if (tensor.rank() == 2) return tensor;
  return contiguous(context, tensor)
      .reshape(Shape{tensor.shape().rows(), tensor.shape().columns()});
}

SOMA_INLINE MatrixOperand operand(const TensorRows& rows) {
  return {.data = rows.data(),
          .dtype = rows.dtype(),
          .row_stride = rows.row_stride(),
          .column_stride = rows.column_stride()};
}

SOMA_INLINE MatrixOperand transposed(MatrixOperand matrix) {
  std::swap(matrix.row_stride, matrix.column_stride);
  return matrix;
}

SOMA_INLINE MatrixTarget target(const Tensor& tensor) {
  return {.data = tensor.mutable_raw(),
          .dtype = tensor.dtype(),
          .row_stride = tensor.shape().columns()};
}

SOMA_INLINE Tensor plain_fp32(Context& context, const Tensor& tensor) {
  if (!tensor.defined() || (tensor.dtype() == DType::fp32 && tensor.contiguous())) return tensor;
  Tensor result = Tensor::empty(context, tensor.shape());
  const Tensor source = contiguous(context, tensor);
  parallel(context, 1, [&](int) {
    context.kernels().element.unary({.function = Unary::copy,
                                     .rows = 1,
                                     .columns = source.elements(),
                                     .x = {.data = source.raw(), .dtype = source.dtype()},
                                     .y = target(result)});
  });
  return result;
}

SOMA_INLINE const float* floats(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<float>() : nullptr;
}

SOMA_INLINE RowSegments::RowSegments(const Sequences& batch, std::size_t rows) {
  if (!batch.defined()) {
    for (std::size_t i = 0; i <= default_shards; ++i)
      own_[i] = rows / default_shards * i + rows % default_shards * i / default_shards;
    segments_ = {own_.data(), default_shards};
    return;
  }
  const std::size_t all = batch.rows(), inner = all == 0 ? 0 : rows / all;
  if (all * inner != rows)
    fail(error_id::operator_sequences, "sum over a batch", "rows", std::to_string(rows),
         "a multiple of the batch's " + std::to_string(all));
  const std::span<const std::size_t> bounds = batch.row_bounds();
  segments_ = {bounds.data(), batch.shards()};
  if (inner == 1) return;
  for (std::size_t i = 0; i < bounds.size(); ++i) own_[i] = bounds[i] * inner;
  segments_.bounds = own_.data();
}

SOMA_INLINE const std::uint64_t* draw_rows(const Sequences& batch, std::size_t rows) {
  if (!batch.defined()) return nullptr;
  if (batch.rows() != rows)
    fail(error_id::operator_sequences, "random draw", "rows", std::to_string(rows),
         "the batch's " + std::to_string(batch.rows()));
  return batch.row_indices().data();
}

}  // namespace SOMA_NAMESPACE::detail
