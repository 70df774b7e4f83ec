#pragma once
// Positions tell a model the index of a row in its sequence. Learned positions are rows of a table
// that are added (arXiv 1706.03762, section 3.5). Rotary positions (arXiv 2104.09864) are an option
// of attention, TransformerOptions::rotary_base, and the operator ops/sequence/rotary.hpp.

#include <soma/nn/layers.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace SOMA_NAMESPACE::nn {

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
  Var operator()(Tape& tape, const Var& x) const;
  // The same for rows [rows, C] of sequences that go on: `begins`, int64 [sequences], has the
  // position of each sequence's first row. Error models.sequence_length: a position without a row
  // in the table.
  Var continued(Tape& tape, const Var& x, const Tensor& begins) const;
  void collect(Collector& collector) const;

  Embedding table;  // weight [positions, C]

 private:
  void check_length(std::size_t length) const;
  // `begins` not defined(): sequences begin at 0.
  Var add_rows(Tape& tape, const Var& x, const Tensor& begins) const;
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/positions.ipp>
#endif
