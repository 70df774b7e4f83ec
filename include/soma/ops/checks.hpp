#pragma once
// Checks that operators share, with good messages.

#include <soma/numeric/quantizer.hpp>
#include <soma/ops/operator.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::detail {

void check_floating(std::string_view operation, std::string_view argument, const Tensor& tensor);
// Checks a result type that the caller chooses. Error operator.value.
void check_output(std::string_view operation, DType dtype);
void check_fp32(std::string_view operation, std::string_view argument, const Tensor& tensor);
void check_index_type(std::string_view operation, std::string_view argument, const Tensor& tensor);
void check_shape(std::string_view operation, std::string_view argument, const Tensor& tensor,
                 const Shape& wanted);
void check_min_rank(std::string_view operation, std::string_view argument, const Tensor& tensor,
                    std::size_t rank);
void check_rank(std::string_view operation, std::string_view argument, const Tensor& tensor,
                std::size_t rank);
// Error operator.value.
void check_accumulation(std::string_view operation, const Accumulation& accumulation);
// Checks that the tensor's rows are the rows of the sequences. Error operator.sequences.
void check_sequences(std::string_view operation, const Tensor& tensor, const Sequences& sequences);
// Checks the sequences of an operator that reads all rows of a sequence: none has padding. Error
// operator.sequences.
void check_no_padding(std::string_view operation, const Sequences& sequences);
// Checks that each sequence has a first row. Error ragged.empty_sequence.
void check_first_rows(std::string_view operation, const Sequences& sequences);

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/checks.ipp>
#endif
