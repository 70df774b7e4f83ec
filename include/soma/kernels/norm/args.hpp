#pragma once
// Layer norm (arXiv 1607.06450), RMS norm (arXiv 1910.07467) and softmax over the rows of a matrix,
// forward and backward. Rows are independent; sums over a row use 16 logical lanes.

#include <soma/kernels/operand.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

// Norms sum the elements of a longer row run by run, so that their errors stay small.
inline constexpr std::size_t norm_run = 16384;  // columns

// y = (x - mean) * rstd * gamma + beta, with mean and biased variance of the row,
// rstd = 1 / sqrt(variance + epsilon). RMS norm: mean is 0 (rms = true).
//
// Layer norm: m is the sum of x divided by the number of columns. A second pass gives the mean d of
// x - m and the mean q of its squares. mean = m + d and variance = q - d^2. Where 4 d^2 >= q the
// elements are nearly equal and m is not good enough: m + d takes its place and the pass is
// repeated. A row whose numbers are all equal has exactly this number as mean, variance 0, and
// y = beta (up to 2^24 columns, where the sum of x is finite and epsilon is not 0).
//
// For every other row, with u = 2^-24, s the roundings that an element of a sum goes through
// (columns / 16 + 5, and one more for each norm_run), deviation the square root of the variance,
// x^ = (x - mean) * rstd, and neglecting u^2:
//     |error of mean|       <= u (|mean| + 1.2 (s + 2) deviation)
//     |error of variance|   <= 5 (s + 3) u variance
//     |error of rstd|       <= (2.5 (s + 3) + 3) u rstd
//     |error of y|          <= u |gamma| (|mean| rstd + 1.2 (s + 2) + |x^| (2.5 s + 14)) + u |y|
// u |mean| is the rounding of the mean to fp32. Why: without the repetition the mean of |x - m| is
// at most 1.2 deviation, with it the mean of |x - m| is at most deviation + |d|, and m, nearest to
// the mean, is no farther from it than any element, so d^2 <= variance. d errs by s + 2 roundings
// of that mean, q by s + 3 of its own. RMS norm has (s + 3) / 2 + 3 roundings in rstd, and y errs
// by |gamma x^| (s / 2 + 7) u + u |y|. Squares below 2^-149 count as zero.
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
  float *sums = nullptr, *squares = nullptr;                                         // rows
  const float *mean = nullptr, *rstd = nullptr, *scale = nullptr, *shift = nullptr;  // channels
  const float *mean_dy = nullptr, *mean_dy_xhat = nullptr;                           // channels
};

struct NormKernels {
  void (*forward)(const NormArgs&) noexcept;
  void (*backward)(const NormArgs&) noexcept;
  void (*backward_parameters)(const NormArgs&) noexcept;
  void (*softmax)(const SoftmaxArgs&) noexcept;
  void (*softmax_backward)(const SoftmaxArgs&) noexcept;
  // mean and squared deviations of each row; y; sums of dy and of dy * xhat; dx
  void (*channel_moments)(const ChannelArgs&) noexcept;
  void (*channel_forward)(const ChannelArgs&) noexcept;
  void (*channel_sums)(const ChannelArgs&) noexcept;
  void (*channel_backward)(const ChannelArgs&) noexcept;
};

}  // namespace SOMA_NAMESPACE
