#pragma once
// Numbers of a narrow format with a scale for each granule: what the products of low-precision
// recipes read.

#include <soma/kernels/operand.hpp>
#include <soma/numeric/float_format.hpp>
#include <soma/numeric/scaling.hpp>

#include <cstddef>

namespace soma {

// A matrix whose rows and columns are cut into granules of group_rows x group_columns; those at the
// end may be smaller. By the rules of numeric/scaling.hpp: elements become encode(x / scale), and
// are written as these codes, or as decode(code) * scale. Bits are those of convert() with the same
// Scaling, and back with its scales. x and y lie apart.
struct QuantizeArgs {
  std::size_t rows = 0, columns = 0;
  MatrixOperand x{};  // any floating type, elements of a row adjacent or not
  // Rounding and draws are those of x's elements, to `format`. No data: only amax is wanted.
  MatrixTarget y{};
  FloatFormat format{};           // with a sign and a zero
  Scaling scaling{};              // its granularity is not read
  std::size_t group_rows = 0;     // 0: all rows
  std::size_t group_columns = 0;  // 1, a multiple of 32, or 0: all columns
  // y is of type `format` and holds codes. Else it is fp32 or bf16, and holds the codes' values
  // times their scales, which are rounded to fp32 and then, to nearest even, to its type.
  bool codes = false;
  // One for each granule: ScalePolicy::current writes them, delayed reads them. No scales: as
  // ScalePolicy::none.
  float* scales = nullptr;
  // One for each granule, nullptr: not wanted. Becomes max(itself, largest finite magnitude of x).
  float* amax = nullptr;
  std::size_t group_stride = 0;  // from the scales and amax of a row of granules to the next
};

}  // namespace soma
