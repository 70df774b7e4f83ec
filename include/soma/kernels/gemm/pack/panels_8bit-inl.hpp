// Packs panels of pairs (gemm/pack/bf16_pairs-inl.hpp) from an operand of bytes. Bytes are moved to
// the order of a panel first and looked up there: numbers need no buffer, and the code moves half
// as many bytes.

#if defined(SOMA_KERNELS_GEMM_PACK_PANELS_8BIT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_PACK_PANELS_8BIT_INL_HPP
#undef SOMA_KERNELS_GEMM_PACK_PANELS_8BIT_INL_HPP
#else
#define SOMA_KERNELS_GEMM_PACK_PANELS_8BIT_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/pack/rows_8bit-inl.hpp>
#include <soma/kernels/rows/vector_loops-inl.hpp>
#include <soma/simd/bf16_dot-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#if SOMA_HAS_BF16_DOT
HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace {  // internal linkage: units with other flags have their own

// Writes panels of kLines lines, kWidth floats wide and `panel` floats apart, step by step: a step
// has a pair of numbers of each line, neighbours along k, and a vector holds the pairs of sixteen
// lines. Places after the last line get arbitrary values.
template <std::size_t kLines, std::size_t kWidth>
class EightBitPanels {
 public:
  static constexpr std::size_t turned = 32;  // columns that turn() takes together

  EightBitPanels(const EightBitRows& rows, float* out, std::size_t panel)
      : rows_(rows), out_(out), panel_(panel) {}

  // For lines that are columns of the operand: an even number of its rows become half as many
  // steps. The rows that are `ahead` rows further are prefetched.
  void pair(const RowsPart& part, std::size_t ahead) const {
    rows_.has_sign() ? pair<true>(part, ahead) : pair<false>(part, ahead);
  }
  // For lines that are rows: a multiple of `turned` columns become half as many steps.
  void turn(const RowsPart& part, std::size_t ahead) const {
    rows_.has_sign() ? turn<true>(part, ahead) : turn<false>(part, ahead);
  }

 private:
  static constexpr std::size_t side = 16;                         // lines of a vector
  static constexpr std::size_t apart = (std::min)(kLines, side);  // between the first of two
  static constexpr bool in_one_panel = kWidth != side;            // two vectors
  static_assert(kWidth == side || (kWidth == 2 * side && kLines == kWidth));

  static constexpr hn::ScalableTag<std::uint8_t> d{};
  static constexpr hn::Half<hn::ScalableTag<std::uint8_t>> d_row{};
  using Bytes = hn::Vec<hn::ScalableTag<std::uint8_t>>;
  static_assert(sizeof(Bytes) == 4 * side);

  // Makes two vectors of lines from 32 bytes of two rows.
  template <bool kSign>
  HWY_NOINLINE void pair(const RowsPart& part, std::size_t ahead) const {
    constexpr std::size_t read = 2 * side;
    constexpr std::size_t together = 4;  // pairs, which are adjacent in a panel
    const NumberTable<kSign> table(rows_.halves());
    // Each group of sixteen bytes has eight codes of the first vector and eight of the second: the
    // codes of four lines, with the two rows interleaved.
    alignas(64) std::uint8_t indices[2 * read];
    for (std::size_t i = 0; i < 2 * read; ++i) {
      const std::size_t line = i / 16 * 4 + i % 8 / 2 + (i % 16 < 8 ? 0 : apart);
      indices[i] = static_cast<std::uint8_t>(i % 2 * read + line);
    }
    const auto order = hn::Load(d, indices);
    const std::size_t to_second = in_one_panel ? side : panel_;
    for (std::size_t row = 0; row < part.rows; row += 2 * together) {
      const std::size_t end = (std::min)(row + 2 * together, part.rows);
      float* to = out_ + row / 2 * kWidth;
      for (std::size_t line = 0; line < part.count; line += 2 * apart) {
        const std::size_t column = part.column + line, left = part.count - line;
        const auto codes = [&](std::size_t i) HWY_ATTR {
          const std::uint8_t* const from = rows_.at(i, column);
          rows_.fetch(i + ahead, column);
          return left >= read ? hn::LoadU(d_row, from)
                              : hn::MaskedLoad(hn::FirstN(d_row, left), d_row, from);
        };
        float* pair = to;
        for (std::size_t i = part.row + row; i < part.row + end; i += 2, pair += kWidth) {
          const auto even = codes(i), odd = codes(i + 1);
          Bytes first, second;
          table.look_up(permute_bytes(hn::Combine(d, odd, even), order), first, second);
          store(first, pair);
          if (in_one_panel || left > apart) store(second, pair + to_second);
        }
        to += in_one_panel ? panel_ : 2 * panel_;
      }
    }
  }

  // Takes a vector of lines and 32 of their columns at a time.
  template <bool kSign>
  HWY_NOINLINE void turn(const RowsPart& part, std::size_t ahead) const {
    static_assert(turned == 2 * side);
    constexpr std::size_t half = side / 2;
    const hn::Repartition<std::uint64_t, decltype(d)> d64;
    const NumberTable<kSign> table(rows_.halves());
    // For each four lines: the pairs of one column, and the pairs of the eighth column after it.
    alignas(64) static constexpr std::uint64_t sides[] = {0, 2, 1, 3, 4, 6, 5, 7};
    const auto order = hn::SetTableIndices(d64, sides);
    const std::size_t last = part.row + part.rows - 1;
    const std::size_t lines = (part.rows + kLines - 1) / kLines * kLines;
    for (std::size_t line = 0; line < lines; line += apart) {
      float* to = out_ + line / kLines * panel_ + line % kLines;
      for (std::size_t k = 0; k < part.count; k += turned, to += side * kWidth) {
        const std::size_t column = part.column + k;
        const auto codes = [&](std::size_t i) HWY_ATTR {
          const std::size_t row = (std::min)(part.row + line + i, last);
          rows_.fetch(row + ahead, column);
          return hn::LoadU(d_row, rows_.at(row, column));
        };
        Bytes pairs[half];
        for (std::size_t i = 0; i < half; ++i) pairs[i] = hn::Combine(d, codes(i + half), codes(i));
        turn_pairs(pairs);
        for (std::size_t i = 0; i < half; ++i) {
          Bytes first, second;
          table.look_up(hn::BitCast(d, hn::TableLookupLanes(hn::BitCast(d64, pairs[i]), order)),
                        first, second);
          store(first, to + i * kWidth);
          store(second, to + (i + half) * kWidth);
        }
      }
    }
  }

  // Transposes pairs within each 16 bytes of eight vectors: rows become columns.
  static HWY_INLINE void turn_pairs(Bytes (&v)[8]) {
    interleave<std::uint16_t, 1>(v);
    interleave<std::uint32_t, 2>(v);
    interleave<std::uint64_t, 4>(v);
  }
  // Interleaves the lanes of vectors that are kApart apart.
  template <class Lane, std::size_t kApart>
  static HWY_INLINE void interleave(Bytes (&v)[8]) {
    const hn::Repartition<Lane, decltype(d)> d_lane;
    Bytes next[8];
    for (std::size_t i = 0, to = 0; i < 8; ++i) {
      if (i / kApart % 2 != 0) continue;
      const auto a = hn::BitCast(d_lane, v[i]), b = hn::BitCast(d_lane, v[i + kApart]);
      next[to++] = hn::BitCast(d, hn::InterleaveLower(d_lane, a, b));
      next[to++] = hn::BitCast(d, hn::InterleaveUpper(d_lane, a, b));
    }
    for (std::size_t i = 0; i < 8; ++i) v[i] = next[i];
  }

  static HWY_INLINE void store(Bytes numbers, float* to) {
    hn::Store(hn::BitCast(Floats(), numbers), Floats(), to);
  }

  const EightBitRows& rows_;
  float* out_;
  std::size_t panel_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
