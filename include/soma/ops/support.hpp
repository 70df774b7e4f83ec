#pragma once
// Tools of operators: checks with good messages, tensors as matrices for kernels, and the division
// of work for the executor.

#include <soma/kernels/table.hpp>
#include <soma/ops/checks.hpp>
#include <soma/ops/operator.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/runtime/parallel.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace soma::detail {

// An optional input, which may also be missing at the end of the list.
inline Tensor input_or_none(std::span<const Tensor> inputs, std::size_t index) {
  return index < inputs.size() ? inputs[index] : Tensor();
}

// ---- tensors as matrices: all dimensions but the last are rows

// The tensor itself if its leading dimensions have one regular stride, else a copy.
inline Tensor regular(Context& context, const Tensor& tensor) {
  if (tensor.rank() <= 2) return tensor;
  for (std::size_t i = 0; i + 2 < tensor.rank(); ++i)
    if (tensor.size(i) != 1 && tensor.strides()[i] != tensor.strides()[i + 1] * tensor.size(i + 1))
      return contiguous(context, tensor);
  return tensor;
}

// The tensor as rows of its last dimension, rank 2.
inline Tensor as_rows(Context& context, const Tensor& tensor) {
  if (tensor.rank() == 2) return tensor;
  return contiguous(context, tensor)
      .reshape(Shape{tensor.shape().rows(), tensor.shape().columns()});
}

// A regular tensor as an operand.
inline MatrixOperand operand(const Tensor& tensor) {
  const std::size_t rank = tensor.rank();
  // The stride of a single column has no meaning, and such a tensor may count as one row.
  return {.data = tensor.raw(),
          .dtype = tensor.dtype(),
          .row_stride = rank < 2 ? 0 : tensor.strides()[rank - 2],
          .column_stride = tensor.shape().columns() == 1 ? 1 : tensor.strides()[rank - 1]};
}
// A matrix with rows and columns exchanged.
inline MatrixOperand transposed(MatrixOperand matrix) {
  std::swap(matrix.row_stride, matrix.column_stride);
  return matrix;
}
// A new output, or a contiguous tensor, as the target of a write.
inline MatrixTarget target(const Tensor& tensor) {
  return {.data = tensor.mutable_raw(),
          .dtype = tensor.dtype(),
          .row_stride = tensor.shape().columns()};
}

// An fp32 vector for kernels that read plain floats. Undefined if the tensor is left out.
inline Tensor plain_fp32(Context& context, const Tensor& tensor) {
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
inline const float* floats(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<float>() : nullptr;
}

// The cuts of a sum over rows: at the shards of the sequences, else evenly into the default number
// of parts.
class RowSegments {
 public:
  RowSegments(const Sequences& sequences, std::size_t rows) {
    if (sequences.defined() && sequences.rows() == rows) {
      segments_ = {sequences.row_bounds().data(), sequences.shards()};
      return;
    }
    for (std::size_t i = 0; i <= default_shards; ++i)
      even_[i] = rows / default_shards * i + rows % default_shards * i / default_shards;
    segments_ = {even_.data(), default_shards};
  }
  RowSegments(const RowSegments&) = delete;
  RowSegments& operator=(const RowSegments&) = delete;
  const Segments& get() const { return segments_; }

 private:
  std::array<std::size_t, default_shards + 1> even_{};
  Segments segments_;
};

}  // namespace soma::detail
