#pragma once
// The functions of operand.hpp.

#include <soma/kernels/operand.hpp>

#include <soma/numeric/draw.hpp>
#include <soma/numeric/rounding.hpp>
#include <soma/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE MatrixOperand part(MatrixOperand operand, std::size_t row, std::size_t column) {
  if (operand.data != nullptr)
    operand.data =
        static_cast<const std::byte*>(operand.data) +
        (row * operand.row_stride + column * operand.column_stride) * size_of(operand.dtype);
  return operand;
}

SOMA_INLINE MatrixTarget part(MatrixTarget target, std::size_t row, std::size_t column) {
  if (target.data != nullptr)
    target.data = static_cast<std::byte*>(target.data) +
                  (row * target.row_stride + column) * size_of(target.dtype);
  shift_draws(target, row, column);
  return target;
}

}  // namespace SOMA_NAMESPACE::detail
