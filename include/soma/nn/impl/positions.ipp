#pragma once
// The functions of positions.hpp.

#include <soma/nn/positions.hpp>

#include <soma/nn/layers.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE Var PositionEmbedding::operator()(Tape& tape, const Var& x) const {
  const Shape& shape = x.shape();
  if (shape.rank() == 3) {
    check_length(shape[1]);
    return add(tape, x, slice(tape, table.weight, 0, 0, shape[1]));
  }
  return add_rows(tape, x, {});
}

SOMA_INLINE Var PositionEmbedding::continued(Tape& tape, const Var& x, const Tensor& begins) const {
  return add_rows(tape, x, begins);
}

SOMA_INLINE Var PositionEmbedding::add_rows(Tape& tape, const Var& x, const Tensor& begins) const {
  const Shape& shape = x.shape();
  const Sequences& sequences = x.sequences();
  if (shape.rank() != 2)
    fail(error_id::tensor_rank, "PositionEmbedding", "x", x.value().describe(),
         "[rows, C] or [B, T, C]");
  if (!sequences.defined())
    fail(error_id::operator_sequences, "PositionEmbedding", "x",
         x.value().describe() + " without sequences", "rows that form sequences, or [B, T, C]");
  check_length(sequences.longest());
  const Tensor positions = Tensor::empty(tape.context(), Shape{sequences.rows()}, DType::int32);
  auto* next = positions.mutable_data<std::int32_t>();
  for (std::size_t i = 0; i < sequences.count(); ++i) {
    const std::size_t first =
        begins.defined() ? static_cast<std::size_t>(begins.data<std::int64_t>()[i]) : 0;
    check_length(first + sequences.length(i));
    for (std::size_t j = 0; j < sequences.length(i); ++j)
      *next++ = static_cast<std::int32_t>(first + j);
  }
  return add(tape, x, table(tape, tape.constant(positions, sequences)));
}

SOMA_INLINE void PositionEmbedding::collect(Collector& collector) const {
  table.collect(collector);
}

SOMA_INLINE void PositionEmbedding::check_length(std::size_t length) const {
  if (length > table.weight.shape()[0])
    fail(error_id::sequence_length, "PositionEmbedding", "x",
         "a sequence of " + std::to_string(length) + " rows",
         "at most " + std::to_string(table.weight.shape()[0]));
}

}  // namespace SOMA_NAMESPACE::nn
