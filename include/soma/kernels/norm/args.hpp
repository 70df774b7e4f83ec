#pragma once
// Layer norm (arXiv 1607.06450), RMS norm (arXiv 1910.07467) and softmax over the rows of a matrix,
// forward and backward. Rows are independent; kernels/rows/row_sums-inl.hpp has the order of sums.

#include <soma/kernels/operand.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

// y = (x - mean) * rstd * gamma + beta, with mean and biased variance of the row,
// rstd = 1 / sqrt(variance + epsilon). RMS norm: mean is 0 (rms = true).
// kernels/norm/moments.hpp says how the moments are computed and how much results may err, where s
// is 69 + log2(columns / 1024), for up to 1024 columns columns / 16 + 5. A row whose numbers are
// all equal has y = beta, where epsilon is not 0.
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
  // backward adds dy * xhat and dy of its rows to these, one row after the other: what
  // backward_parameters sums, of a run of rows, in the same pass. Columns rounded up to 16, aligned
  // to 64 bytes; both nullptr: not wanted.
  float *gamma_sums = nullptr, *beta_sums = nullptr;
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

// Rows of planes, adjacent fp32: row r belongs to channel (first_row + r) % channels.
// kernels/norm/channels-inl.hpp lists the members that each entry reads and writes.
struct ChannelArgs {
  std::size_t rows = 0, columns = 0, channels = 1, first_row = 0;
  const float *x = nullptr, *dy = nullptr;
  float* y = nullptr;                                                                // y, or dx
  float *centers = nullptr, *sums = nullptr, *squares = nullptr;                     // rows
  const float *mean = nullptr, *rstd = nullptr, *scale = nullptr, *shift = nullptr;  // channels
  const float *mean_dy = nullptr, *mean_dy_xhat = nullptr;                           // channels
};

struct NormKernels {
  void (*forward)(const NormArgs&) noexcept;
  void (*backward)(const NormArgs&) noexcept;
  void (*backward_parameters)(const NormArgs&) noexcept;
  void (*softmax)(const SoftmaxArgs&) noexcept;
  void (*softmax_backward)(const SoftmaxArgs&) noexcept;
  // the sums of each row around its center; y; sums of dy and of dy * xhat; dx
  void (*channel_moments)(const ChannelArgs&) noexcept;
  void (*channel_forward)(const ChannelArgs&) noexcept;
  void (*channel_sums)(const ChannelArgs&) noexcept;
  void (*channel_backward)(const ChannelArgs&) noexcept;
};

}  // namespace SOMA_NAMESPACE
