#pragma once
// Checks that operators share, with good messages.

#include <soma/ops/operator.hpp>

#include <cstddef>
#include <string>
#include <string_view>

namespace soma::detail {

inline void check_floating(std::string_view operation, std::string_view argument,
                           const Tensor& tensor) {
  if (!is_floating(tensor.dtype()))
    fail(error_id::tensor_dtype, operation, argument, tensor.describe(), "a floating type");
}
inline void check_fp32(std::string_view operation, std::string_view argument,
                       const Tensor& tensor) {
  if (tensor.dtype() != DType::fp32)
    fail(error_id::tensor_dtype, operation, argument, tensor.describe(), "fp32");
}
inline void check_index_type(std::string_view operation, std::string_view argument,
                             const Tensor& tensor) {
  if (tensor.dtype() != DType::int32 && tensor.dtype() != DType::int64)
    fail(error_id::tensor_dtype, operation, argument, tensor.describe(), "int32 or int64");
}
inline void check_shape(std::string_view operation, std::string_view argument, const Tensor& tensor,
                        const Shape& wanted) {
  if (tensor.shape() != wanted)
    fail(error_id::tensor_shape, operation, argument, tensor.describe(), to_string(wanted));
}
inline void check_min_rank(std::string_view operation, std::string_view argument,
                           const Tensor& tensor, std::size_t rank) {
  if (tensor.rank() < rank)
    fail(error_id::tensor_rank, operation, argument, tensor.describe(),
         "rank " + std::to_string(rank) + " or more");
}
inline void check_rank(std::string_view operation, std::string_view argument, const Tensor& tensor,
                       std::size_t rank) {
  if (tensor.rank() != rank)
    fail(error_id::tensor_rank, operation, argument, tensor.describe(),
         "rank " + std::to_string(rank));
}
// Sequences whose rows are the rows of the tensor. Error operator.sequences.
inline void check_sequences(std::string_view operation, const Tensor& tensor,
                            const Sequences& sequences) {
  if (!sequences.defined() || tensor.rank() == 0 || sequences.rows() != tensor.size(0))
    fail(error_id::operator_sequences, operation, "input",
         tensor.describe() + (sequences.defined() ? " with sequences of " +
                                                        std::to_string(sequences.rows()) + " rows"
                                                  : " without sequences"),
         "rows that form sequences (Tape::constant of a Ragged)");
}

}  // namespace soma::detail
