#pragma once
// PieceMemory: what one piece of a model does with the heap, measured on one micro-batch
// (train/pipeline/profiler.hpp). Bytes are those of the heap, with the headers of blocks.

#include <soma/tensor/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace SOMA_NAMESPACE::train {

// Backward, from one gradient of a parameter to the next.
struct GradientStep {
  // The most bytes since the gradient before, over those before forward. Earlier gradients of
  // parameters are not counted, this one is.
  std::uint64_t working = 0;
  bool gradient = true;      // false: the end of backward, without a gradient
  std::uint64_t bytes = 0;   // the gradient in fp32
  std::uint64_t stored = 0;  // in the type in which a step keeps it
  bool sparse = false;       // it has some rows only
  std::uint64_t whole = 0;   // bytes if it had all rows
  Shape shape{};             // the parameter's
};

struct PieceMemory {
  std::size_t rows = 0;          // rows of the micro-batch
  std::uint64_t part = 0;        // bytes that say which rows of the batch these are
  std::uint64_t forward = 0;     // the most while it computes, over those before it
  std::uint64_t saved = 0;       // kept for backward, with the result
  std::uint64_t kept = 0;        // the same when the result has left
  std::uint64_t result = 0;      // bytes of the result
  std::uint64_t evaluation = 0;  // the most while it computes without recording
  // Beside the elements of an input that another stage sent: a header, a variable, sequences.
  std::uint64_t beside_input = 0;
  double forward_seconds = 0, backward_seconds = 0;  // 0: not timed
  std::vector<GradientStep> backward{};
};

struct PieceProfile {
  // Index k: of the largest part if batches have 2^k parts. A size that was not measured has no
  // rows.
  std::vector<PieceMemory> sizes{};
  std::uint64_t tape = 0;    // a tape that has recorded the piece
  std::uint64_t tables = 0;  // formats and weights that a precision keeps
};

}  // namespace SOMA_NAMESPACE::train
