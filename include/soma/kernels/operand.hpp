#pragma once
// The layout of memory for kernels: a start, an element type and distances between elements.
// Strides express transpositions and slices, dtype the storage type; kernels convert to fp32 when
// they load.

#include <soma/numeric/draw.hpp>
#include <soma/numeric/rounding.hpp>
#include <soma/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

// A matrix that is read. Strides in elements. Element value: the stored number; for int8 and uint8
// (stored - zero_point) * scale, for floating types stored * scale where scale is not 1.
struct MatrixOperand {
  const void* data = nullptr;
  DType dtype = DType::fp32;
  std::size_t row_stride = 0, column_stride = 1;
  float scale = 1;
  std::int32_t zero_point = 0;
};

// A matrix that is written: a floating type, with adjacent elements in a row. The value is rounded
// once; stochastic rounding of element (row, column) draws at
//     draw.index + (row_indices ? row_indices[row] : row * draw_row_stride) + column.
struct MatrixTarget {
  void* data = nullptr;
  DType dtype = DType::fp32;
  std::size_t row_stride = 0;  // elements
  Rounding rounding{};
  Draw draw{};
  std::uint64_t draw_row_stride = 0;
  const std::uint64_t* row_indices = nullptr;
};

// Elements are dropped if their random word is below `threshold` (probability * 2^32) and
// multiplied by keep_scale otherwise. Element (row, column) draws the word at
//     draw.index + (row_indices ? row_indices[row] : row * draw_row_stride) + column.
struct DropoutArgs {
  std::uint32_t threshold = 0;  // 0: no dropout
  float keep_scale = 1;         // 1 / (1 - probability), rounded to fp32
  Draw draw{};
  std::uint64_t draw_row_stride = 0;
  const std::uint64_t* row_indices = nullptr;
};

// A sum over rows is cut at bounds[0] = 0 <= bounds[1] <= ... <= bounds[count] = rows. Each segment
// is summed from zero in ascending order (sums that are not sums of products: in runs of
// rows_of_run()). The segments are then added in the fixed tree of a binary counter: neighbours
// 0+1, 2+3 ..., then neighbouring pairs, and so on. `count` is a power of two. nullptr: one segment
// with all rows.
struct Segments {
  const std::size_t* bounds = nullptr;
  std::size_t count = 1;
};

// A sum of n numbers, added one after the other, may have an error of n units. So the rows of a
// segment are added in runs of this length, and then the runs: instead of n, the error has 512
// units, or less than 3 sqrt(n).
constexpr std::size_t rows_of_run(std::size_t rows) {
  std::size_t run = 512;
  while (run < rows / run) run *= 2;
  return run;
}

// The elements of a row that are summed in 16 logical lanes: with one more element the lanes begin
// anew, and the runs of a row meet in a binary tree (kernels/rows/row_sums-inl.hpp). Its error is
// at most 68 + log2(n / 1024) units instead of n / 16.
inline constexpr std::size_t row_run = 1024;

// The activation that a linear layer applies to its product (Unary defines the functions).
enum class Activation : std::uint8_t {
  none,
  relu,
  gelu,
  gelu_tanh,
  tanh,
  sigmoid,
  silu,
  gelu_sigmoid,
  gelu_clipped,
  mish,
  leaky_relu,
  relu6,
  relu_squared,
  laplace,
};

namespace detail {

// The part of the matrix from a row and a column on. Each element keeps its own draw.
MatrixOperand part(MatrixOperand operand, std::size_t row, std::size_t column);

template <class Draws>  // MatrixTarget or DropoutArgs
void shift_draws(Draws& draws, std::size_t row, std::size_t column) {
  if (draws.row_indices != nullptr)
    draws.row_indices += row;
  else
    draws.draw.index += row * draws.draw_row_stride;
  draws.draw.index += column;
}

MatrixTarget part(MatrixTarget target, std::size_t row, std::size_t column);

}  // namespace detail
}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/kernels/impl/operand.ipp>
#endif
