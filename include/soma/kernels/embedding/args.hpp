#pragma once
// Embedding: rows of a table chosen by ids, and the gradient, which is sums of rows. The caller
// checks the ids.

#include <soma/kernels/operand.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

// y[i] = table[ids[i]]
struct GatherArgs {
  std::size_t rows = 0, columns = 0;  // the size of y
  MatrixOperand table{};
  const void* ids = nullptr;  // rows; int32 or int64
  DType id_dtype = DType::int64;
  MatrixTarget y{};
};

// out = the sum of x[list[0]], x[list[1]] ...: rows of one segment of the list are added in order,
// segments in the fixed tree. With `accumulate`, the old value is added.
struct GatherSumArgs {
  std::size_t columns = 0;
  MatrixOperand x{};
  const std::uint32_t* list = nullptr;
  std::size_t count = 0;
  Segments segments{};  // segments of the list
  bool accumulate = false;
  float* out = nullptr;
};

struct EmbeddingKernels {
  void (*gather)(const GatherArgs&) noexcept;
  void (*gather_sum)(const GatherSumArgs&) noexcept;
};

}  // namespace SOMA_NAMESPACE
