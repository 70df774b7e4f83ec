#pragma once
// The functions of checks.hpp.

#include <soma/ops/checks.hpp>

#include <soma/numeric/quantizer.hpp>
#include <soma/ops/operator.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE void check_floating(std::string_view operation, std::string_view argument,
                                const Tensor& tensor) {
  if (!is_floating(tensor.dtype()))
    fail(error_id::tensor_dtype, operation, argument, tensor.describe(), "a floating type");
}

SOMA_INLINE void check_output(std::string_view operation, DType dtype) {
  if (!is_floating(dtype))
    fail(error_id::operator_value, operation, "output", to_string(dtype), "a floating type");
}

SOMA_INLINE void check_fp32(std::string_view operation, std::string_view argument,
                            const Tensor& tensor) {
  if (tensor.dtype() != DType::fp32)
    fail(error_id::tensor_dtype, operation, argument, tensor.describe(), "fp32");
}

SOMA_INLINE void check_index_type(std::string_view operation, std::string_view argument,
                                  const Tensor& tensor) {
  if (tensor.dtype() != DType::int32 && tensor.dtype() != DType::int64)
    fail(error_id::tensor_dtype, operation, argument, tensor.describe(), "int32 or int64");
}

SOMA_INLINE void check_shape(std::string_view operation, std::string_view argument,
                             const Tensor& tensor, const Shape& wanted) {
  if (tensor.shape() != wanted)
    fail(error_id::tensor_shape, operation, argument, tensor.describe(), to_string(wanted));
}

SOMA_INLINE void check_min_rank(std::string_view operation, std::string_view argument,
                                const Tensor& tensor, std::size_t rank) {
  if (tensor.rank() < rank)
    fail(error_id::tensor_rank, operation, argument, tensor.describe(),
         "rank " + std::to_string(rank) + " or more");
}

SOMA_INLINE void check_rank(std::string_view operation, std::string_view argument,
                            const Tensor& tensor, std::size_t rank) {
  if (tensor.rank() != rank)
    fail(error_id::tensor_rank, operation, argument, tensor.describe(),
         "rank " + std::to_string(rank));
}

SOMA_INLINE void check_accumulation(std::string_view operation, const Accumulation& accumulation) {
  const auto refuse = [&](const std::string& given, std::string_view wanted) {
    fail(error_id::operator_value, operation, "accumulation", given, wanted);
  };
  const FloatFormat& format = accumulation.format;
  if (const char* problem = format.problem()) refuse(to_string(format), problem);
  if (!format.is_signed || !format.has_zero())
    refuse(to_string(format), "a format with a sign and a zero");
  constexpr std::uint64_t most = Accumulation::most_products;
  if (accumulation.chunk == 0 || std::uint64_t{accumulation.chunk} > most)
    refuse("a chunk of " + std::to_string(accumulation.chunk),
           "1 to " + std::to_string(most) + " products");
  if (std::uint64_t{accumulation.promote} > most)
    refuse("promoted after " + std::to_string(accumulation.promote),
           "at most " + std::to_string(most) + " products");
}

SOMA_INLINE void check_sequences(std::string_view operation, const Tensor& tensor,
                                 const Sequences& sequences) {
  if (!sequences.defined() || sequences.place() != BatchPlace{} || !sequences.fits(tensor))
    fail(error_id::operator_sequences, operation, "input",
         tensor.describe() + (sequences.defined() ? " with sequences of " +
                                                        std::to_string(sequences.rows()) + " rows"
                                                  : " without sequences"),
         "rows that form sequences (Tape::constant of a Ragged)");
}

SOMA_INLINE void check_no_padding(std::string_view operation, const Sequences& sequences) {
  if (sequences.defined() && sequences.padded())
    fail(error_id::operator_sequences, operation, "input", "sequences with padding",
         "sequences without padding");
}

SOMA_INLINE void check_first_rows(std::string_view operation, const Sequences& sequences) {
  for (std::size_t i = 0; i < sequences.count(); ++i)
    if (sequences.length(i) == 0)
      fail(error_id::ragged_empty_sequence, operation, "sequence " + std::to_string(i), "empty",
           "at least one row in each sequence");
}

}  // namespace SOMA_NAMESPACE::detail
