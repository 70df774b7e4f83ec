// Packing of fp32 numbers for the bf16 tile instruction. Each number is the sum of three bf16
// numbers, its parts: (1) the upper half of its bits; (2) the rest, rounded to nearest, ties away
// from zero; (3) the rest after that, which is exact in bf16 ("Leveraging the bfloat16 Artificial
// Intelligence Datatype For Higher-Precision Computations", Henry, Tang and Heinecke, arXiv
// 1904.06376). The first part never overflows. Infinity and NaN make the other parts NaN.
//
// A step of a panel has three tiles of 16 lines and 32 of k, one for each part. The two numbers of
// a pair are 16 of k apart, not neighbours: so both come from whole vectors, whether lines are rows
// or columns in memory.

#if defined(SOMA_KERNELS_GEMM_PACK_FP32_SPLIT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_PACK_FP32_SPLIT_INL_HPP
#undef SOMA_KERNELS_GEMM_PACK_FP32_SPLIT_INL_HPP
#else
#define SOMA_KERNELS_GEMM_PACK_FP32_SPLIT_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/pack/fp32-inl.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>
#include <soma/simd/bf16_tiles-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

#if SOMA_HAS_BF16_TILES
HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t split_parts = 3;
inline constexpr std::size_t split_tile_floats = tile_lines * tile_floats;
// The floats of a step of a panel.
inline constexpr std::size_t split_step_floats = split_parts * split_tile_floats;

// Names the operation, as FusedMultiplyAdd does.
struct SplitProducts {
  static constexpr std::size_t products = 1;
  static constexpr bool splits = true;
};

// Splits vectors of pairs: a line of each of the three tiles. kParts = 1: of the first tile only.
template <std::size_t kParts = split_parts>
HWY_INLINE void split_pairs(FloatVector even, FloatVector odd, float* out) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const auto upper = hn::Set(du, 0xFFFF0000u), half = hn::Set(du, 0x8000u);
  const auto store = [&](auto low, auto high, std::size_t part) HWY_ATTR {
    hn::Store(hn::BitCast(d, hn::Or(hn::ShiftRight<16>(low), hn::And(high, upper))), d,
              out + part * split_tile_floats);
  };
  const auto upper_half = [&](auto bits) HWY_ATTR { return hn::BitCast(d, hn::And(bits, upper)); };
  const auto even_bits = hn::BitCast(du, even), odd_bits = hn::BitCast(du, odd);
  store(even_bits, odd_bits, 0);
  if constexpr (kParts == 1) return;
  const FloatVector even_left = hn::Sub(even, upper_half(even_bits));
  const FloatVector odd_left = hn::Sub(odd, upper_half(odd_bits));
  const auto even_near = hn::Add(hn::BitCast(du, even_left), half);
  const auto odd_near = hn::Add(hn::BitCast(du, odd_left), half);
  store(even_near, odd_near, 1);
  store(hn::BitCast(du, hn::Sub(even_left, upper_half(even_near))),
        hn::BitCast(du, hn::Sub(odd_left, upper_half(odd_near))), 2);
}

namespace {  // internal linkage: units with other flags have their own

// The memory into which packing decodes numbers, and for blocks that are transposed.
struct SplitBuffer {
  static constexpr std::size_t lines_together = 128;  // that are decoded, where they are columns
  static constexpr std::size_t column_stride = lines_together + lane_padding;
  static constexpr std::size_t line_stride = pack_depth + lane_padding;
  alignas(64) float values[(std::max)(tile_steps * column_stride, tile_lines* line_stride)];
  alignas(64) float edge[tile_steps * tile_lines];
  alignas(64) float turned[2 * split_tile_floats];
};

// The counterpart of PackSource for any operand. The CPU's own prefetching keeps up with splitting:
// explicit prefetches made a step slower.
class SplitSource {
 public:
  using Buffer = SplitBuffer;

  SplitSource(const MatrixOperand& operand, std::size_t, std::size_t, std::size_t line_stride,
              std::size_t depth_stride)
      : along_depth_(depth_stride <= line_stride), stride_((std::max)(line_stride, depth_stride)) {
    MatrixOperand rows = operand;
    rows.row_stride = stride_;
    rows.column_stride = (std::min)(line_stride, depth_stride);
    reader_ = MatrixReader(rows);
  }

  static constexpr float factor() { return 1; }
  std::size_t most_depth() const { return reader_.direct() ? pack_direct_depth : pack_depth; }

  // Packs panels of a: a row of a tile is a line.
  void pack_a(const PackPart& part, SplitBuffer& buffer) const {
    along_depth_ ? pack_lines<false>(part, buffer) : pack_columns<true>(part, buffer);
  }
  // Packs panels of b: a column of a tile is a line.
  void pack_b(const PackPart& part, SplitBuffer& buffer) const {
    along_depth_ ? pack_lines<true>(part, buffer) : pack_columns<false>(part, buffer);
  }

 private:
  // Rows in memory, from one row on, `stride` floats apart.
  struct Block {
    const float* first;
    std::size_t stride;
  };

  // Packs lines that are rows in memory.
  template <bool kTurns>
  void pack_lines(const PackPart& part, SplitBuffer& buffer) const {
    float* panel = part.out;
    for (std::size_t line = 0; line < part.lines; line += tile_lines, panel += part.panel) {
      const std::size_t lines = (std::min)(tile_lines, part.lines - line);
      const Block rows = read({part.first_line + line, lines, part.first, part.depth},
                              SplitBuffer::line_stride, buffer);
      float* to = panel;
      for (std::size_t k = 0; k < part.depth; k += tile_steps, to += split_step_floats) {
        const std::size_t depth = (std::min)(tile_steps, part.depth - k);
        const Block block =
            whole({rows.first + k, rows.stride}, lines, depth, tile_lines, tile_steps, buffer);
        split<kTurns>(block, tile_floats, buffer, to);
      }
    }
  }

  // Packs lines that are columns in memory.
  template <bool kTurns>
  void pack_columns(const PackPart& part, SplitBuffer& buffer) const {
    const std::size_t together = reader_.direct() ? part.lines : SplitBuffer::lines_together;
    float* step = part.out;
    for (std::size_t k = 0; k < part.depth; k += tile_steps, step += split_step_floats) {
      const std::size_t depth = (std::min)(tile_steps, part.depth - k);
      float* to = step;
      for (std::size_t first = 0; first < part.lines; first += together) {
        const std::size_t count = (std::min)(together, part.lines - first);
        const Block rows = read({part.first + k, depth, part.first_line + first, count},
                                SplitBuffer::column_stride, buffer);
        for (std::size_t line = 0; line < count; line += tile_lines, to += part.panel) {
          const std::size_t lines = (std::min)(tile_lines, count - line);
          const Block block =
              whole({rows.first + line, rows.stride}, depth, lines, tile_steps, tile_lines, buffer);
          split<kTurns>(block, tile_lines * block.stride, buffer, to);
        }
      }
    }
  }

  Block read(const RowsPart& part, std::size_t stride, SplitBuffer& buffer) const {
    for (std::size_t i = 1; i < part.rows && !reader_.direct(); ++i)
      reader_.read(part.row + i, part.column, part.count, buffer.values + i * stride);
    return {reader_.read(part.row, part.column, part.count, buffer.values),
            reader_.direct() ? stride_ : stride};
  }

  // Returns the block itself if it has all rows and columns, or a copy with zeros for missing ones.
  static Block whole(const Block& block, std::size_t rows, std::size_t columns,
                     std::size_t all_rows, std::size_t all_columns, SplitBuffer& buffer) {
    if (rows == all_rows && columns == all_columns) return block;
    std::fill_n(buffer.edge, all_rows * all_columns, 0.0f);
    for (std::size_t i = 0; i < rows; ++i)
      std::copy_n(block.first + i * block.stride, columns, buffer.edge + i * all_columns);
    return {buffer.edge, all_columns};
  }

  // Packs a block of 32 of k and 16 lines. Its second half of k begins `half` floats after the
  // first.
  template <bool kTurns>
  static HWY_INLINE void split(const Block& block, std::size_t half, SplitBuffer& buffer,
                               float* out) {
    if constexpr (kTurns) {
      turn(block.first, block.stride, buffer.turned);
      turn(block.first + half, block.stride, buffer.turned + split_tile_floats);
      split_lines(buffer.turned, tile_floats, split_tile_floats, out);
    } else {
      split_lines(block.first, block.stride, half, out);
    }
  }
  HWY_NOINLINE HWY_MAYBE_UNUSED static void split_lines(const float* even, std::size_t stride,
                                                        std::size_t half, float* out) {
    const Floats d;
    for (std::size_t i = 0; i < tile_lines; ++i, even += stride, out += tile_floats)
      split_pairs(hn::LoadU(d, even), hn::LoadU(d, even + half), out);
  }
  // Transposes: 16 rows become columns.
  HWY_NOINLINE HWY_MAYBE_UNUSED static void turn(const float* from, std::size_t stride, float* to) {
    static_assert(pack_group == tile_lines);
    const float* rows[tile_lines];
    for (std::size_t i = 0; i < tile_lines; ++i) rows[i] = from + i * stride;
    for (std::size_t at = 0; at < tile_floats; at += 4)
      turn_group(rows, at, to + at * tile_floats, tile_floats);
  }

  bool along_depth_;
  std::size_t stride_;
  MatrixReader reader_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
