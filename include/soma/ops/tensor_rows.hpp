#pragma once
// TensorRows: a tensor as rows of its last dimension, as kernels and transfers read it. Operators,
// programs and optimizers read strides through this file only (tests/house/strides.py).

#include <soma/kernels/operand.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <optional>

namespace SOMA_NAMESPACE::detail {

// All dimensions but the last are rows; a vector is one row, a single number one row of one column.
// A dimension of size 1 has no stride: what a tensor says of it means nothing. A contiguous tensor
// is row-major. Made by rows_of().
class TensorRows {
 public:
  TensorRows() = default;  // of no tensor

  // The tensor, or its row-major copy.
  const Tensor& tensor() const { return tensor_; }
  const Shape& shape() const;
  DType dtype() const;
  bool defined() const;
  std::size_t elements() const;
  // The first element. Pending calls for the tensor run first.
  const std::byte* data() const;

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  // From row to row and from column to column, in elements. A single column has the stride 1; that
  // of a single row means nothing.
  std::size_t row_stride() const { return row_stride_; }
  std::size_t column_stride() const { return column_stride_; }
  // True if all elements are one run, row after row.
  bool contiguous() const { return contiguous_; }

 private:
  friend TensorRows rows_of(Context& context, const Tensor& tensor);

  Tensor tensor_{};
  std::size_t rows_ = 0, columns_ = 0, row_stride_ = 0, column_stride_ = 1;
  bool contiguous_ = true;
};

// The common stride of the dimensions before the last; none: they have different ones. Not for a
// rank of 0.
std::optional<std::size_t> row_step_of(const Tensor& tensor);
// True if rows_of() copies nothing.
bool has_rows(const Tensor& tensor);

// The only way to read a tensor as rows. The rows are those of a row-major copy if the dimensions
// before the last have no common stride.
TensorRows rows_of(Context& context, const Tensor& tensor);

// The distance of neighbours along a dimension, for code that walks over all dimensions; 0 if its
// size is 1.
std::size_t step_of(const Tensor& tensor, std::size_t dimension);

// The first matrix of the last two dimensions, with any strides.
MatrixOperand first_matrix(const Tensor& tensor);

// Calls each(a, b) for the matrices of two tensors of one shape, in row-major order.
template <class Each>
void for_each_matrix(const Tensor& a, const Tensor& b, const Each& each) {
  const Shape& shape = a.shape();
  if (shape.elements() == 0) return;
  MatrixOperand x = first_matrix(a), z = first_matrix(b);
  const std::size_t outer = shape.rank() < 2 ? 0 : shape.rank() - 2;
  std::array<std::size_t, max_rank> at{};
  const auto move = [](MatrixOperand& matrix, std::size_t elements, bool back) {
    const auto bytes = static_cast<std::ptrdiff_t>(elements * size_of(matrix.dtype));
    matrix.data = static_cast<const std::byte*>(matrix.data) + (back ? -bytes : bytes);
  };
  while (true) {
    each(x, z);
    std::size_t d = outer;
    while (d > 0) {
      --d;
      const std::size_t step_a = step_of(a, d), step_b = step_of(b, d);
      if (++at[d] < shape[d]) {
        move(x, step_a, false);
        move(z, step_b, false);
        break;
      }
      at[d] = 0;
      move(x, (shape[d] - 1) * step_a, true);
      move(z, (shape[d] - 1) * step_b, true);
      if (d == 0) return;
    }
    if (outer == 0) return;
  }
}

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/tensor_rows.ipp>
#endif
