#pragma once
// Positions tell a model the place of a row in its sequence. Learned positions are rows of a table
// that are added (arXiv 1706.03762, section 3.5). Rotary positions (arXiv 2104.09864) are an option
// of attention, TransformerOptions::rotary_base, and the operator ops/sequence/rotary.hpp.

#include <soma/nn/layers.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace soma::nn {

// x + weight[position], for rows [rows, C] that form sequences, or a batch [B, T, C].
class PositionEmbedding {
 public:
  PositionEmbedding() = default;
  // For sequences of up to `positions` rows.
  PositionEmbedding(const Scope& scope, std::size_t positions, std::size_t width,
                    float standard_deviation = 0.02f)
      : table(scope, positions, width, standard_deviation) {}

  // Errors operator.sequences, tensor.rank, models.sequence_length (a sequence longer than
  // `positions`).
  Var operator()(Tape& tape, const Var& x) const {
    const Shape& shape = x.shape();
    if (shape.rank() == 3) {
      check_length(shape[1]);
      return add(tape, x, slice(tape, table.weight, 0, 0, shape[1]));
    }
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
    for (std::size_t i = 0; i < sequences.count(); ++i)
      for (std::size_t j = 0; j < sequences.length(i); ++j) *next++ = static_cast<std::int32_t>(j);
    return add(tape, x, table(tape, tape.constant(positions, sequences)));
  }
  void collect(Collector& collector) const { table.collect(collector); }

  Embedding table;  // weight [positions, C]

 private:
  void check_length(std::size_t length) const {
    if (length > table.weight.shape()[0])
      fail(error_id::sequence_length, "PositionEmbedding", "x",
           "a sequence of " + std::to_string(length) + " rows",
           "at most " + std::to_string(table.weight.shape()[0]));
  }
};

}  // namespace soma::nn
