#pragma once
// Layer norm (arXiv 1607.06450), RMS norm (arXiv 1910.07467) and softmax over the rows of a matrix,
// forward and backward. Rows are independent; sums over a row use 16 logical lanes.

#include <soma/kernels/operand.hpp>

#include <cstddef>

namespace soma {

// y = (x - mean) * rstd * gamma + beta, with mean and biased variance of the row,
// rstd = 1 / sqrt(variance + epsilon). RMS norm: mean is 0 (rms = true). The variance is that of
// the differences from the mean (two passes), so a large common offset costs no digits.
struct NormArgs {
  std::size_t rows = 0, columns = 0;
  bool rms = false;
  float epsilon = 0;
  MatrixOperand x{};
  const float* gamma = nullptr;  // columns; nullptr: ones
  const float* beta = nullptr;   // columns; nullptr: zeros
  MatrixTarget y{};              // forward writes it
  float* mean = nullptr;         // rows; forward writes, backward reads; nullptr with rms
  float* rstd = nullptr;         // rows
  // backward
  MatrixOperand dy{};
  MatrixTarget dx{};
  // backward_parameters: the sums over rows of dy * xhat and of dy, for columns first_column to
  // first_column + count; nullptr: not wanted. Order: as ColumnSumArgs.
  Segments segments{};
  std::size_t first_column = 0, column_count = 0;
  float* dgamma = nullptr;  // columns
  float* dbeta = nullptr;   // columns
};

// y = softmax(x) or log softmax(x); dx from y and dy. A row of -infinity alone gives NaN, as the
// formula does.
struct SoftmaxArgs {
  std::size_t rows = 0, columns = 0;
  bool logarithm = false;
  MatrixOperand x{};
  MatrixTarget y{};
  MatrixOperand y_in{}, dy{};  // backward
  MatrixTarget dx{};
};

struct NormKernels {
  void (*forward)(const NormArgs&) noexcept;
  void (*backward)(const NormArgs&) noexcept;
  void (*backward_parameters)(const NormArgs&) noexcept;
  void (*softmax)(const SoftmaxArgs&) noexcept;
  void (*softmax_backward)(const SoftmaxArgs&) noexcept;
};

}  // namespace soma
