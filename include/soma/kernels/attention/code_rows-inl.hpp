// Rows of bf16 numbers to panels of pairs and back, for the dot products of attention
// (attention/dots-inl.hpp).

#if defined(SOMA_KERNELS_ATTENTION_CODE_ROWS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ATTENTION_CODE_ROWS_INL_HPP
#undef SOMA_KERNELS_ATTENTION_CODE_ROWS_INL_HPP
#else
#define SOMA_KERNELS_ATTENTION_CODE_ROWS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/attention/panels-inl.hpp>
#include <soma/kernels/attention/products-inl.hpp>
#include <soma/kernels/gemm/pack/bf16_pairs-inl.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>
#include <soma/kernels/rows/vector_loops-inl.hpp>
#include <soma/simd/bf16_dot-inl.hpp>
#include <soma/simd/code_runs-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if SOMA_HAS_BF16_DOT
HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static constexpr std::size_t pairs_of(std::size_t count) { return (count + 1) / 2; }
inline constexpr std::size_t panel_codes = 2 * micro_columns;  // of a row of a panel of pairs

// Rows of bf16 numbers, adjacent in each, so many codes apart.
struct CodeRows {
  const Bf16Code* first;
  std::size_t stride;

  static bool take(const MatrixOperand& operand) {
    return operand.dtype == DType::bf16 && operand.scale == 1 && operand.column_stride == 1;
  }
  CodeRows(const MatrixOperand& operand, std::size_t row)
      : first(static_cast<const Bf16Code*>(operand.data) + row * operand.row_stride),
        stride(operand.row_stride) {}
};

// Panels of pairs along the width, `panel_rows` rows each, from so many rows and row_padding of
// zeros behind them; zeros behind the last number of a row.
HWY_NOINLINE HWY_MAYBE_UNUSED static void copy_pair_rows(const CodeRows& from, std::size_t rows,
                                                         std::size_t width, std::size_t panel_rows,
                                                         float* out) {
  const hn::CappedTag<Bf16Code, panel_codes> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t at = 0; at < width; at += panel_codes, out += panel_rows * micro_columns) {
    const std::size_t count = (std::min)(panel_codes, width - at), whole = count / lanes * lanes;
    auto* to = reinterpret_cast<Bf16Code*>(out);
    for (std::size_t row = 0; row < rows; ++row, to += panel_codes) {
      const Bf16Code* const codes = from.first + row * from.stride + at;
      for (std::size_t i = 0; i < whole; i += lanes) hn::Store(hn::LoadU(d, codes + i), d, to + i);
      if (whole != count)
        std::memcpy(to + whole, codes + whole, (count - whole) * sizeof(Bf16Code));
      if (count != panel_codes) std::fill(to + count, to + panel_codes, Bf16Code{0});
    }
    std::fill_n(to, (std::min)(row_padding, panel_rows - rows) * panel_codes, Bf16Code{0});
  }
}

// Panels of pairs of rows, `panel` floats apart: an odd last row has zeros beside it.
HWY_NOINLINE HWY_MAYBE_UNUSED static void pair_code_rows(const CodeRows& from, std::size_t rows,
                                                         std::size_t width, std::size_t panel,
                                                         float* out) {
  alignas(64) static constexpr Bf16Code zeros[micro_columns] = {};
  for (std::size_t at = 0; at < width; at += micro_columns, out += panel)
    for (std::size_t row = 0; row < rows; row += 2) {
      const Bf16Code* const even = from.first + row * from.stride + at;
      pack_pair_rows<micro_columns>(even, row + 1 < rows ? even + from.stride : zeros, width - at,
                                    out + row / 2 * micro_columns);
    }
}

// Rows of scores, or what has become of them, rounded to pairs of neighbouring queries.
HWY_NOINLINE HWY_MAYBE_UNUSED static void round_rows(const float* scores, std::size_t rows,
                                                     std::size_t columns, float* out) {
  const Floats d;
  for (std::size_t row = 0; row < rows; ++row, scores += micro_columns, out += float_lanes) {
    const FloatVector left = hn::Load(d, scores);
    const FloatVector right = columns > float_lanes ? hn::Load(d, scores + float_lanes) : left;
    hn::Store(nearest_bf16(left, right), d, out);
  }
}

// The bytes of two vectors' rounded numbers, one vector's behind the other's, in the order of
// pairs.
struct PairBytes {
  alignas(64) std::uint8_t indices[64] = {};
  constexpr PairBytes() {
    for (std::size_t i = 0; i < 64; ++i)
      indices[i] = static_cast<std::uint8_t>(i / 4 * 2 + i % 2 + i / 2 % 2 * 32);
  }
};

// The same of pairs of keys, as panels of queries: a last one without a neighbour has zeros.
HWY_NOINLINE HWY_MAYBE_UNUSED static void round_pairs(const float* scores, std::size_t rows,
                                                      std::size_t columns, float* out) {
  static constexpr PairBytes order;
  const Floats d;
  const FloatVector indices =
      hn::BitCast(d, hn::Load(hn::Repartition<std::uint8_t, Floats>(), order.indices));
  for (std::size_t row = 0; row < rows; row += 2, out += micro_columns)
    for (std::size_t at = 0; at < columns; at += float_lanes) {
      const float* const from = scores + row * micro_columns + at;
      const FloatVector even = hn::Load(d, from);
      const FloatVector odd = row + 1 < rows ? hn::Load(d, from + micro_columns) : hn::Zero(d);
      hn::Store(permute_bytes(nearest_bf16(even, odd), indices), d, out + at);
    }
}

// The first `count` numbers of two vectors, rounded by integers: subnormal ones stay what they are.
HWY_NOINLINE HWY_MAYBE_UNUSED static void write_bf16_end(FloatVector left, FloatVector right,
                                                         std::size_t count, std::byte* to) {
  const Lanes32 d;
  const hn::Rebind<Bf16Code, Lanes32> half;
  alignas(64) Bf16Code codes[micro_columns];
  const auto store = [&](FloatVector values, Bf16Code* at) HWY_ATTR {
    hn::Store(hn::TruncateTo(half, bf16_codes<false>(d, hn::BitCast(d, values), hn::Zero(d))), half,
              at);
  };
  store(left, codes);
  store(right, codes + float_lanes);
  std::memcpy(to, codes, count * sizeof(Bf16Code));
}

// As write_panels(), of a target that rounds to bf16: from registers.
HWY_NOINLINE HWY_MAYBE_UNUSED static void write_bf16_panels(const float* panels, std::size_t panel,
                                                            std::size_t width, std::size_t first,
                                                            std::size_t rows, const float* factors,
                                                            MatrixWriter& writer) {
  const Floats d;
  for (std::size_t row = 0; row < rows; ++row) {
    const FloatVector factor = hn::Set(d, factors != nullptr ? factors[row] : 1.0f);
    const float* from = panels + row * micro_columns;
    std::byte* to = writer.at(first + row, 0);
    for (std::size_t at = 0; at < width; at += micro_columns, from += panel) {
      const FloatVector left = hn::Mul(hn::Load(d, from), factor);
      const FloatVector right = hn::Mul(hn::Load(d, from + float_lanes), factor);
      const std::size_t count = (std::min)(micro_columns, width - at);
      if (HWY_LIKELY(count == micro_columns && !any_subnormal(left, right)))
        hn::StoreU(nearest_bf16(left, right), d, reinterpret_cast<float*>(to));
      else
        write_bf16_end(left, right, count, to);
      to += micro_columns * sizeof(Bf16Code);
    }
  }
}

// The sum of products of two rows, in the order of add_row_products().
HWY_NOINLINE HWY_MAYBE_UNUSED static float row_product(const Bf16Code* a, const Bf16Code* b,
                                                       std::size_t width) {
  const Floats d;
  const hn::Rebind<Bf16Code, Floats> stored;
  LaneSums<1> sums;
  FloatVector sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + float_lanes <= width; i += float_lanes)
    sum = fused(d, widened(hn::LoadU(stored, a + i)), widened(hn::LoadU(stored, b + i)), sum);
  if (i != width) {
    alignas(64) Bf16Code last[2][float_lanes] = {};
    std::memcpy(last[0], a + i, (width - i) * sizeof(Bf16Code));
    std::memcpy(last[1], b + i, (width - i) * sizeof(Bf16Code));
    const FloatVector longer =
        fused(d, widened(hn::Load(stored, last[0])), widened(hn::Load(stored, last[1])), sum);
    sum = hn::IfThenElse(hn::FirstN(d, width - i), longer, sum);
  }
  static_assert(float_lanes == sum_lanes);
  hn::Store(sum, d, sums.lanes[0]);
  return sums.total();
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
