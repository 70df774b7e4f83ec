#pragma once
// Tools of operators: checks with good messages, tensors as matrices for kernels, and the division
// of work for the executor.

#include <soma/kernels/table.hpp>
#include <soma/ops/checks.hpp>
#include <soma/ops/operator.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/ops/tensor_rows.hpp>
#include <soma/runtime/parallel.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::detail {

// Operator::keeps_for of a product of two operands: the gradient of one reads the other.
KeptTensors other_operand(std::uint32_t wanted);

// An optional input, which may also be missing at the end of the list.
Tensor input_or_none(std::span<const Tensor> inputs, std::size_t index);

// ---- tensors as matrices: all dimensions but the last are rows

// The tensor as rows of its last dimension, rank 2.
Tensor as_rows(Context& context, const Tensor& tensor);

MatrixOperand operand(const TensorRows& rows);
MatrixOperand operand(TensorRows&& rows) = delete;  // its copy would end before it is read
// A matrix with rows and columns exchanged.
MatrixOperand transposed(MatrixOperand matrix);
// A new output, or a contiguous tensor, as the target of a write.
MatrixTarget target(const Tensor& tensor);

// An fp32 vector for kernels that read plain floats. Undefined if the tensor is left out.
Tensor plain_fp32(Context& context, const Tensor& tensor);
const float* floats(const Tensor& tensor);

// The cuts of a sum over rows: at the shards of the batch, else evenly into the default number of
// parts.
class RowSegments {
 public:
  // `rows` are those of the batch, each followed by as many inner rows as there are. Error
  // operator.sequences: they are not.
  RowSegments(const Sequences& batch, std::size_t rows);
  RowSegments(const RowSegments&) = delete;
  RowSegments& operator=(const RowSegments&) = delete;
  const Segments& get() const { return segments_; }

 private:
  std::array<std::size_t, max_shards + 1> own_;  // as many as there are cuts
  Segments segments_;
};

// The indices of rows for random draws (Sequences::row_indices); nullptr without a batch. Error
// operator.sequences: the batch does not have a row for each.
const std::uint64_t* draw_rows(const Sequences& batch, std::size_t rows);

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/support.ipp>
#endif
