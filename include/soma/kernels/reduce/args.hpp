#pragma once
// Reductions, each in one fixed order.

#include <soma/kernels/operand.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

enum class Reduction : std::uint8_t { sum, maximum, minimum };

// out[r] = reduction over the columns of row r. A sum of up to row_run columns uses 16 logical
// lanes: lane i adds elements i, i + 16, ... in order, then lanes are added pairwise (i with i + 8,
// + 4, + 2, + 1); runs of row_run columns meet in a binary tree (kernels/rows/row_sums-inl.hpp).
// NaN wins in maximum and minimum. Without columns, the result is 0, -infinity or infinity.
struct RowReduceArgs {
  Reduction reduction = Reduction::sum;
  std::size_t rows = 0, columns = 0;
  MatrixOperand x{};
  // A row may be a window of an image: lines of `line` columns, which begin line_stride columns
  // apart. 0: one line.
  std::size_t line = 0, line_stride = 0;
  float* out = nullptr;  // rows
};

// out[c] = sum over rows, for `columns` columns. The rows of a segment are added in runs of
// rows_of_run() in ascending order, and segments in the fixed tree. With `accumulate`, the old
// value is added.
struct ColumnSumArgs {
  std::size_t rows = 0, columns = 0;
  MatrixOperand x{};
  Segments segments{};
  bool accumulate = false;
  float* out = nullptr;
};

// The sum of squares of a run, in double: 16 logical lanes, one run.
struct SumSquaresArgs {
  std::size_t count = 0;
  const void* x = nullptr;
  DType dtype = DType::fp32;
  double result = 0;
};

// Tests if all numbers of a run are finite.
struct FiniteArgs {
  std::size_t count = 0;
  const void* x = nullptr;
  DType dtype = DType::fp32;
  bool finite = true;
};

struct ReduceKernels {
  void (*rows)(const RowReduceArgs&) noexcept;
  void (*column_sums)(const ColumnSumArgs&) noexcept;
  void (*sum_squares)(SumSquaresArgs&) noexcept;
  void (*all_finite)(FiniteArgs&) noexcept;
};

}  // namespace SOMA_NAMESPACE
