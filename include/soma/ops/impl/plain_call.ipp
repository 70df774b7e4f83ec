#pragma once
// The functions of plain_call.hpp.

#include <soma/ops/plain_call.hpp>

#include <soma/ops/operator.hpp>
#include <soma/ops/support.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <utility>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE bool widened(const Tensor& tensor) {
  return is_floating(tensor.dtype()) && tensor.dtype() != DType::fp32;
}

SOMA_INLINE bool is_plain(const Tensor& tensor) {
  return !widened(tensor) && (!tensor.defined() || tensor.contiguous());
}

SOMA_INLINE bool all_plain(std::span<const Tensor> tensors) {
  for (const Tensor& tensor : tensors)
    if (!is_plain(tensor)) return false;
  return true;
}

SOMA_INLINE Tensor in_type(Context& context, const Tensor& tensor, DType dtype) {
  Tensor result = Tensor::empty(context, tensor.shape(), dtype);
  const TensorRows source = rows_of(context, tensor);
  const MatrixOperand from = operand(source);
  const MatrixTarget to = target(result);
  for_elements(context, source.shape(), source.contiguous(), 2,
               [&](std::size_t row, std::size_t column, std::size_t rows, std::size_t columns) {
                 context.kernels().element.unary({.function = Unary::copy,
                                                  .rows = rows,
                                                  .columns = columns,
                                                  .x = part(from, row, column),
                                                  .y = part(to, row, column)});
               });
  return result;
}

SOMA_INLINE Tensor plain(Context& context, const Tensor& tensor) {
  if (is_plain(tensor)) return tensor;
  if (!tensor.defined()) return tensor.outline(DType::fp32);
  return widened(tensor) ? in_type(context, tensor, DType::fp32) : contiguous(context, tensor);
}

SOMA_INLINE PlainTensors::PlainTensors(Context& context, std::span<const Tensor> tensors)
    : tensors_(context.heap()) {
  tensors_.reserve(tensors.size());
  for (const Tensor& tensor : tensors) tensors_.push_back(plain(context, tensor));
}

}  // namespace SOMA_NAMESPACE::detail
