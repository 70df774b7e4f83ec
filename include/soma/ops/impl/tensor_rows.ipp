#pragma once
// The functions of tensor_rows.hpp.

#include <soma/ops/tensor_rows.hpp>

#include <soma/kernels/operand.hpp>
#include <soma/tensor/tensor.hpp>

#include <cstddef>
#include <optional>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE const Shape& TensorRows::shape() const { return tensor_.shape(); }

SOMA_INLINE DType TensorRows::dtype() const { return tensor_.dtype(); }

SOMA_INLINE bool TensorRows::defined() const { return tensor_.defined(); }

SOMA_INLINE std::size_t TensorRows::elements() const { return tensor_.elements(); }

SOMA_INLINE const std::byte* TensorRows::data() const { return tensor_.raw(); }

// The common stride of the dimensions before the last; none: they have different ones.
SOMA_INLINE std::optional<std::size_t> row_step_of(const Tensor& tensor) {
  std::size_t step = 0, next = 0;  // the stride that continues the rows of the inner dimensions
  bool known = false;
  for (std::size_t i = tensor.rank() - 1; i-- > 0;) {
    if (tensor.size(i) == 1) continue;
    if (!known) next = step = tensor.strides()[i];
    if (tensor.strides()[i] != next) return std::nullopt;
    known = true;
    next *= tensor.size(i);
  }
  return step;
}

SOMA_INLINE bool has_rows(const Tensor& tensor) {
  return tensor.contiguous() || row_step_of(tensor).has_value();
}

SOMA_INLINE TensorRows rows_of(Context& context, const Tensor& tensor) {
  TensorRows result;
  result.tensor_ = tensor;
  if (!tensor.defined()) return result;
  const std::size_t rank = tensor.rank();
  result.rows_ = tensor.shape().rows();
  result.columns_ = tensor.shape().columns();
  if (!tensor.contiguous()) {
    if (result.columns_ != 1) result.column_stride_ = tensor.strides()[rank - 1];
    result.contiguous_ = false;
    if (const auto step = row_step_of(tensor)) {
      result.row_stride_ = *step;
      return result;
    }
    result.tensor_ = clone(context, tensor);
    result.contiguous_ = true;
  }
  result.column_stride_ = 1;
  result.row_stride_ = rank < 2 ? 0 : result.columns_;
  return result;
}

SOMA_INLINE std::size_t step_of(const Tensor& tensor, std::size_t dimension) {
  return tensor.size(dimension) == 1 ? 0 : tensor.strides()[dimension];
}

SOMA_INLINE MatrixOperand first_matrix(const Tensor& tensor) {
  const std::size_t rank = tensor.rank();
  return {.data = tensor.raw(),
          .dtype = tensor.dtype(),
          .row_stride = rank < 2 ? 0 : step_of(tensor, rank - 2),
          .column_stride = tensor.shape().columns() == 1 ? 1 : step_of(tensor, rank - 1)};
}

}  // namespace SOMA_NAMESPACE::detail
