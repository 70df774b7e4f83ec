// Packing of columns that are bf16 as panels of their codes (CodeColumns), which the innermost loop
// widens.

#if defined(SOMA_KERNELS_GEMM_PACK_BF16_CODES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_PACK_BF16_CODES_INL_HPP
#undef SOMA_KERNELS_GEMM_PACK_BF16_CODES_INL_HPP
#else
#define SOMA_KERNELS_GEMM_PACK_BF16_CODES_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/kernels/gemm/pack/fp32-inl.hpp>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Words of two vectors of codes, the first in the low halves.
HWY_INLINE FloatVector words_of(hn::Vec<hn::Rebind<Bf16Code, Floats>> low,
                                hn::Vec<hn::Rebind<Bf16Code, Floats>> high) {
  const hn::RebindToUnsigned<Floats> du;
  return hn::BitCast(Floats(),
                     hn::Or(hn::PromoteTo(du, low), hn::ShiftLeft<16>(hn::PromoteTo(du, high))));
}

// Packs one panel from lines that are adjacent along k.
template <std::size_t kWidth>
HWY_NOINLINE HWY_MAYBE_UNUSED static void pack_code_lines(const Bf16Code* const* lines,
                                                          std::size_t depth, float* out) {
  constexpr std::size_t width = CodeColumns::floats(kWidth);
  constexpr std::size_t pair = 2 * float_lanes;  // lines of a vector of words
  std::size_t whole = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr std::size_t cache_line = 64 / sizeof(Bf16Code);
  const hn::Rebind<Bf16Code, Floats> stored;
  whole = depth / 4 * 4;
  for (std::size_t first = 0; first < whole; first += cache_line) {
    const std::size_t end = (std::min)(first + cache_line, whole);
    for (std::size_t line = 0; line < kWidth; ++line)
      hwy::Prefetch(lines[line] + first + 2 * cache_line);
    for (std::size_t group = 0; group < kWidth; group += pair)
      for (std::size_t k = first; k < end; k += 4) {
        const auto words = [&](std::size_t line) HWY_ATTR {
          const Bf16Code* const* const from = lines + group + line;
          return words_of(load_blocks(stored, from, k), load_blocks(stored, from + float_lanes, k));
        };
        turn_vectors(words(0), words(1), words(2), words(3), out + k * width + group / 2, width);
      }
  }
#endif
  for (std::size_t k = whole; k < depth; ++k)
    for (std::size_t i = 0; i < width; ++i) {
      const Bf16Code* const* const from = lines + i / float_lanes * pair + i % float_lanes;
      const std::uint32_t word = from[0][k] | std::uint32_t{from[float_lanes][k]} << 16;
      std::memcpy(out + k * width + i, &word, sizeof word);
    }
}

// Packs `depth` steps of one panel from rows of lines, as pack_rows_panel().
template <std::size_t kWidth>
HWY_NOINLINE HWY_MAYBE_UNUSED static void pack_code_rows(const Bf16Code* rows, std::size_t stride,
                                                         std::size_t readable, std::size_t depth,
                                                         std::size_t ahead, float* out) {
  constexpr std::size_t cache_line = 64 / sizeof(Bf16Code);
  const hn::Rebind<Bf16Code, Floats> stored;
  alignas(64) Bf16Code edge[kWidth] = {};
  for (std::size_t k = 0; k < depth; ++k) {
    const Bf16Code* from = rows + k * stride;
    if (readable < kWidth) {
      std::memcpy(edge, from, readable * sizeof(Bf16Code));
      from = edge;
    } else {
      for (std::size_t at = 0; at < kWidth; at += cache_line)
        hwy::Prefetch(from + ahead * stride + at);
    }
    for (std::size_t at = 0; at < kWidth; at += 2 * float_lanes, out += float_lanes)
      hn::Store(words_of(hn::LoadU(stored, from + at), hn::LoadU(stored, from + at + float_lanes)),
                Floats(), out);
  }
}

namespace {  // internal linkage: units with other flags have their own

// Columns of b that are bf16, unscaled, and adjacent along k or to each other.
class CodeSource {
 public:
  static bool takes(const MatrixOperand& b) {
    return b.dtype == DType::bf16 && b.scale == 1 && (std::min)(b.row_stride, b.column_stride) == 1;
  }

  CodeSource(const MatrixOperand& b, std::size_t columns, std::size_t depth,
             std::size_t column_stride, std::size_t depth_stride)
      : codes_(static_cast<const Bf16Code*>(b.data)),
        columns_(columns),
        depth_(depth),
        along_depth_(depth_stride <= column_stride),
        stride_((std::max)(depth_stride, column_stride)) {}

  static constexpr float factor() { return 1; }
  static constexpr std::size_t most_depth() { return pack_direct_depth; }

  template <std::size_t kLines, std::size_t kWidth>
  void pack(const PackPart& part, PackBuffer&) const {
    static_assert(kLines == kWidth);
    float* out = part.out;
    for (std::size_t at = 0; at < part.lines; at += kWidth, out += part.panel)
      if (along_depth_)
        pack_along_depth<kWidth>(part, at, out);
      else
        pack_along_lines<kWidth>(part, at, out);
  }

 private:
  template <std::size_t kWidth>
  void pack_along_depth(const PackPart& part, std::size_t at, float* out) const {
    const Bf16Code* from[kWidth];
    for (std::size_t line = 0; line < kWidth; ++line)
      from[line] = at + line < part.lines
                       ? codes_ + (part.first_line + at + line) * stride_ + part.first
                       : PackBuffer::no_codes;
    pack_code_lines<kWidth>(from, part.depth, out);
  }

  // Lines after the last requested line may be read too.
  template <std::size_t kWidth>
  void pack_along_lines(const PackPart& part, std::size_t at, float* out) const {
    const std::size_t line = part.first_line + at;
    for (std::size_t k = 0; k < part.depth; k += PackBuffer::rows) {
      const std::size_t rows = (std::min)(PackBuffer::rows, part.depth - k);
      const std::size_t ahead = part.first + k + 2 * rows <= depth_ ? rows : 0;
      pack_code_rows<kWidth>(codes_ + (part.first + k) * stride_ + line, stride_, columns_ - line,
                             rows, ahead, out + k * CodeColumns::floats(kWidth));
    }
  }

  const Bf16Code* codes_;
  std::size_t columns_, depth_;
  bool along_depth_;
  std::size_t stride_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
