#pragma once
// Converts numbers to a narrow format with a scale for each scaling block: the operands of the
// products of low-precision recipes.

#include <soma/kernels/operand.hpp>
#include <soma/numeric/float_format.hpp>
#include <soma/numeric/scaling.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

// A matrix whose rows and columns are cut into scaling blocks of group_rows x group_columns; the
// last scaling blocks may be smaller. By the rules of numeric/scaling.hpp, elements become encode(x
// / scale), and are written as codes or as decode(code) * scale. The bits are the same as with
// convert() to the format with the same Scaling, and back with its scales. x and y must not
// overlap.
struct QuantizeArgs {
  std::size_t rows = 0, columns = 0;
  MatrixOperand x{};  // any floating type, elements of a row adjacent or not
  // x's elements are rounded to `format` with this rounding and these draws. No data: only amax is
  // computed.
  MatrixTarget y{};
  FloatFormat format{};           // with a sign and a zero
  Scaling scaling{};              // its granularity is not read
  std::size_t group_rows = 0;     // 0: all rows
  std::size_t group_columns = 0;  // 1, 16, a multiple of 32, or 0: all columns
  // true: y is of type `format` and holds codes. false: y is fp32 or bf16 and holds the codes'
  // values times their scales, rounded to fp32 and then, to nearest even, to y's type.
  bool codes = false;
  // Bits of a code in y, where it holds codes: 8; or 4 or 6, packed by their order, low bits first.
  // Then rows of y begin at bytes, and y.row_stride counts bytes.
  int code_bits = 8;
  // One scale for each scaling block: ScalePolicy::current writes them, delayed reads them. No
  // scales: as ScalePolicy::none.
  float* scales = nullptr;
  // ScaleFormat::e4m3: elements are encode(x / (scale * tensor_scale)), and numbers without codes
  // are decode(code) * scale: whoever reads them multiplies by tensor_scale.
  float tensor_scale = 1;
  // One number for each scaling block, which becomes max(itself, largest finite magnitude of x), or
  // infinity with `marks_infinite` where a number of x is not finite; nullptr: not computed.
  float* amax = nullptr;
  bool marks_infinite = false;
  std::size_t group_stride = 0;  // from the scales and amax of a row of scaling blocks to the next
};

// Scales as they are kept beside codes: an exponent (e8m0) and e4m3 take a byte.
enum class StoredScale : std::uint8_t { fp32, exponent, e4m3 };

// The numbers that codes and scales of a QuantizeArgs stand for, with the bits that it writes
// without codes.
struct ExpandArgs {
  std::size_t rows = 0, columns = 0;
  const std::byte* codes = nullptr;
  std::size_t row_stride = 0;  // bytes
  int code_bits = 8;           // 4, 6 or 8
  FloatFormat format{};
  const std::byte* scales = nullptr;  // for each scaling block
  StoredScale scale = StoredScale::fp32;
  std::size_t group_rows = 0, group_columns = 0, group_stride = 0;  // as of QuantizeArgs
  MatrixTarget y{};                                                 // bf16 or fp32
};

// A Hadamard matrix of most_rotated rows at most.
inline constexpr std::size_t most_rotated = 128;

// Parts of `size` numbers along a row, or down a column, become H (x * factors): H is the Hadamard
// matrix of sums and differences, whose elements are 1 and -1. Numbers that fill no whole part stay
// as they are. Stages run from neighbours to halves, whatever the vectors; each number is rounded
// once a stage.
struct RotateArgs {
  std::size_t rows = 0, columns = 0;
  MatrixOperand x{};               // any floating type
  float* y = nullptr;              // does not overlap x
  std::size_t row_stride = 0;      // y's
  std::size_t size = 0;            // 16, 32, 64 or 128
  const float* factors = nullptr;  // `size` of them
  bool down = false;               // parts lie down the columns
};

}  // namespace SOMA_NAMESPACE
