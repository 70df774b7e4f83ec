// Packing: copies a block of an operand to panels of fp32, in the order in which the innermost loop
// of a product reads them, [k][width]. Lines beyond the edge of the matrix are zero; along k, a
// panel has no padding.

#if defined(SOMA_KERNELS_GEMM_PACK_FP32_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_PACK_FP32_INL_HPP
#undef SOMA_KERNELS_GEMM_PACK_FP32_INL_HPP
#else
#define SOMA_KERNELS_GEMM_PACK_FP32_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/kernels/gemm/pack/rows_8bit-inl.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The most steps of k in a call if elements are decoded.
inline constexpr std::size_t pack_depth = 192;
// The most steps of k in a call if lines are read in place. Long pieces of few lines come from
// memory faster than short ones of many: with 192 steps packing lines takes 1.15 to 1.6 times as
// long (Intel, AMX).
inline constexpr std::size_t pack_direct_depth = 1024;
// The most lines (rows of a, columns of b) in a call.
inline constexpr std::size_t pack_lines = row_chunk;

// The lines and steps of k of an operand that a call packs, at most pack_lines and the source's
// most_depth(), and the target: panels that are `panel` floats apart.
struct PackPart {
  std::size_t first_line, lines, first, depth;
  float* out;
  std::size_t panel;
};

// Elements of fp32 or bf16 are packed directly from the operand. Bytes are decoded to bf16 first if
// that is quick and exact; all other elements are decoded to fp32.
HWY_INLINE FloatVector widened(FloatVector values) { return values; }
HWY_INLINE FloatVector widened(hn::Vec<hn::Rebind<Bf16Code, Floats>> codes) {
  const hn::RebindToUnsigned<Floats> du;
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(du, codes)));
}
static inline float widened_one(float value) { return value; }
static inline float widened_one(Bf16Code code) {
  const std::uint32_t bits = std::uint32_t{code} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

#if HWY_TARGET != HWY_SCALAR
// Loads four elements from every fourth line, one line for each block of 128 bits of floats.
template <class D, class Element>
HWY_INLINE hn::Vec<D> load_blocks(D d, const Element* const* lines, std::size_t at) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return hn::LoadU(d, lines[0] + at);
  } else {
    const hn::Half<D> half;
    return hn::Combine(d, load_blocks(half, lines + hn::MaxLanes(half), at),
                       load_blocks(half, lines, at));
  }
}

// Transposes 4 x 4 blocks of four vectors: to[i * stride] gets element i of each block's lines.
HWY_INLINE void turn_vectors(FloatVector a, FloatVector b, FloatVector c, FloatVector e, float* to,
                             std::size_t stride) {
  const Floats d;
  const hn::Repartition<double, Floats> pairs;
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ce_low)), d, to);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ce_low)), d, to + stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ce_high)), d, to + 2 * stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ce_high)), d, to + 3 * stride);
}
#endif

// The number of lines that are transposed at a time: a vector has a 4 x 4 block for each 128 bits.
inline constexpr std::size_t pack_group = (std::max)(float_lanes, std::size_t{4});

// Transposes four elements of each of pack_group lines: to[i * stride] gets element i of all lines.
template <class Element>
HWY_INLINE void turn_group(const Element* const* lines, std::size_t at, float* to,
                           std::size_t stride) {
#if HWY_TARGET == HWY_SCALAR
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t line = 0; line < 4; ++line)
      to[i * stride + line] = widened_one(lines[line][at + i]);
#else
  const hn::Rebind<Element, Floats> stored;
  const auto a = widened(load_blocks(stored, lines, at));
  const auto b = widened(load_blocks(stored, lines + 1, at));
  const auto c = widened(load_blocks(stored, lines + 2, at));
  const auto e = widened(load_blocks(stored, lines + 3, at));
  turn_vectors(a, b, c, e, to, stride);
#endif
}

// Packs one panel, in whole groups, from lines that are adjacent along k.
template <std::size_t kWidth, class Element>
HWY_NOINLINE HWY_MAYBE_UNUSED static void pack_lines_panel(const Element* const* lines,
                                                           std::size_t depth, float* out) {
  constexpr std::size_t cache_line = 64 / sizeof(Element);
  const std::size_t whole = depth / 4 * 4;
  // The inner loops use up a cache line of the source at once.
  for (std::size_t first = 0; first < whole; first += cache_line) {
    const std::size_t end = (std::min)(first + cache_line, whole);
    for (std::size_t line = 0; line < kWidth; ++line)
      hwy::Prefetch(lines[line] + first + 2 * cache_line);
    for (std::size_t group = 0; group < kWidth; group += pack_group)
      for (std::size_t k = first; k < end; k += 4)
        turn_group(lines + group, k, out + k * kWidth + group, kWidth);
  }
  for (std::size_t k = whole; k < depth; ++k)
    for (std::size_t line = 0; line < kWidth; ++line)
      out[k * kWidth + line] = widened_one(lines[line][k]);
}

// Packs `depth` steps of one panel from rows of lines, `stride` elements apart. `readable` lines
// may be read; the rows that are `ahead` rows further are prefetched.
template <std::size_t kWidth, class Element>
HWY_NOINLINE HWY_MAYBE_UNUSED static void pack_rows_panel(const Element* rows, std::size_t stride,
                                                          std::size_t readable, std::size_t depth,
                                                          std::size_t ahead, float* out) {
  constexpr std::size_t cache_line = 64 / sizeof(Element);
  const hn::Rebind<Element, Floats> stored;
  alignas(64) Element edge[kWidth] = {};
  for (std::size_t k = 0; k < depth; ++k) {
    const Element* from = rows + k * stride;
    if (readable < kWidth) {
      std::memcpy(edge, from, readable * sizeof(Element));
      from = edge;
    } else {
      for (std::size_t at = 0; at < kWidth; at += cache_line)
        hwy::Prefetch(from + ahead * stride + at);
    }
    for (std::size_t at = 0; at < kWidth; at += float_lanes)
      hn::Store(widened(hn::LoadU(stored, from + at)), Floats(), out + k * kWidth + at);
  }
}

namespace {  // internal linkage: units with other flags have their own

// The memory into which packing decodes numbers.
struct PackBuffer {
  static constexpr std::size_t rows = 8;  // rows of lines at a time
  static constexpr std::size_t row_stride = pack_lines + lane_padding;
  static constexpr std::size_t line_stride = pack_depth + lane_padding;
  static constexpr std::size_t most_width = 32;
  alignas(64) float values[most_width * line_stride];
  alignas(64) Bf16Code codes[most_width * line_stride];
  // Stands for a line beyond the edge of the matrix.
  alignas(64) static constexpr float no_values[pack_direct_depth] = {};
  alignas(64) static constexpr Bf16Code no_codes[pack_direct_depth] = {};
  template <class Element>
  static const Element* zeros() {
    if constexpr (std::is_same_v<Element, float>)
      return no_values;
    else
      return no_codes;
  }
};
static_assert(PackBuffer::rows * PackBuffer::row_stride <=
              PackBuffer::most_width * PackBuffer::line_stride);

// One side of a product: the lines of a are its rows, the lines of b its columns. Panels hold
// kLines lines and use kWidth floats for a step of k.
class PackSource {
 public:
  using Buffer = PackBuffer;

  PackSource(const MatrixOperand& operand, std::size_t lines, std::size_t depth,
             std::size_t line_stride, std::size_t depth_stride)
      : lines_(lines),
        depth_(depth),
        along_depth_(depth_stride <= line_stride),
        operand_(with_strides(operand, (std::max)(line_stride, depth_stride),
                              (std::min)(line_stride, depth_stride))),
        reader_(operand_),
        plain_bf16_(operand.dtype == DType::bf16 && operand_.column_stride == 1 &&
                    operand.scale == 1) {
    if (EightBitRows::quick(operand.dtype) && operand.scale == 1 && EightBitRows::take(operand_))
      bytes_ = EightBitRows(operand_, along_depth_ ? lines : depth, false);
  }

  // The factor for sums of these elements: 1, because packing applies the scale.
  static constexpr float factor() { return 1; }

  // The most steps in a call.
  std::size_t most_depth() const {
    return reader_.direct() || plain_bf16_ ? pack_direct_depth : pack_depth;
  }

  // The address of a line from a step on, if the line has a float for each step; else nullptr.
  const float* place(std::size_t line, std::size_t step) const {
    if (!along_depth_ || !reader_.direct()) return nullptr;
    return static_cast<const float*>(operand_.data) + line * operand_.row_stride + step;
  }

  // Packs panels, one after another.
  template <std::size_t kLines, std::size_t kWidth>
  void pack(std::size_t first_line, std::size_t lines, std::size_t first, std::size_t depth,
            PackBuffer& buffer, float* out) const {
    pack<kLines, kWidth>({first_line, lines, first, depth, out, depth * kWidth}, buffer);
  }
  template <std::size_t kLines, std::size_t kWidth>
  void pack(const PackPart& part, PackBuffer& buffer) const {
    static_assert(kWidth >= kLines && kWidth % pack_group == 0 && kWidth <= PackBuffer::most_width);
    const bool in_bf16 = plain_bf16_ || bytes_.present();
    if (along_depth_ && in_bf16)
      pack_along_depth<kLines, kWidth, Bf16Code>(part, buffer);
    else if (along_depth_)
      pack_along_depth<kLines, kWidth, float>(part, buffer);
    else if (in_bf16)
      pack_along_lines<kLines, kWidth, Bf16Code>(part, buffer);
    else
      pack_along_lines<kLines, kWidth, float>(part, buffer);
  }

 private:
  // For 8-bit types, the rows that are `ahead` rows further are prefetched.
  template <class Element>
  const Element* read(const RowsPart& part, std::size_t ahead, std::size_t stride,
                      PackBuffer& buffer) const {
    if constexpr (std::is_same_v<Element, float>) {
      for (std::size_t i = 1; i < part.rows && !reader_.direct(); ++i)
        reader_.read(part.row + i, part.column, part.count, buffer.values + i * stride);
      return reader_.read(part.row, part.column, part.count, buffer.values);
    } else {
      if (plain_bf16_)
        return static_cast<const Element*>(operand_.data) + part.row * operand_.row_stride +
               part.column;
      bytes_.read(part, ahead, buffer.codes, stride);
      return buffer.codes;
    }
  }
  // True if elements are read where they are stored.
  template <class Element>
  bool direct() const {
    return std::is_same_v<Element, float> ? reader_.direct() : plain_bf16_;
  }

  template <std::size_t kLines, std::size_t kWidth, class Element>
  void pack_along_depth(const PackPart& part, PackBuffer& buffer) const {
    const std::size_t stride = direct<Element>() ? operand_.row_stride : PackBuffer::line_stride;
    float* out = part.out;
    for (std::size_t at = 0; at < part.lines; at += kLines, out += part.panel) {
      const Element* from[kWidth];
      const std::size_t present = (std::min)(kLines, part.lines - at);
      const Element* const first =
          read<Element>({part.first_line + at, present, part.first, part.depth}, kLines,
                        PackBuffer::line_stride, buffer);
      for (std::size_t line = 0; line < present; ++line) from[line] = first + line * stride;
      for (std::size_t line = present; line < kWidth; ++line)
        from[line] = PackBuffer::zeros<Element>();
      pack_lines_panel<kWidth>(from, part.depth, out);
    }
  }

  template <std::size_t kLines, std::size_t kWidth, class Element>
  void pack_along_lines(const PackPart& part, PackBuffer& buffer) const {
    const auto [first_line, lines, first, depth, out, panel] = part;
    const std::size_t stride = direct<Element>() ? operand_.row_stride : PackBuffer::row_stride;
    // Lines after the last requested line may be read too: their numbers go to places that no
    // result depends on.
    const std::size_t readable = direct<Element>() ? lines_ - first_line : lines;
    for (std::size_t k = 0; k < depth; k += PackBuffer::rows) {
      const std::size_t rows = (std::min)(PackBuffer::rows, depth - k);
      // The distance to the rows that are packed next, perhaps by another call; 0 for the last
      // rows.
      const std::size_t ahead = first + k + 2 * rows <= depth_ ? rows : 0;
      const Element* const from =
          read<Element>({first + k, rows, first_line, lines}, rows, PackBuffer::row_stride, buffer);
      float* to = out + k * kWidth;
      for (std::size_t at = 0; at < lines; at += kLines, to += panel)
        pack_rows_panel<kWidth>(from + at, stride, readable - at, rows, ahead, to);
    }
  }

  static MatrixOperand with_strides(MatrixOperand operand, std::size_t row, std::size_t column) {
    operand.row_stride = row;
    operand.column_stride = column;
    return operand;
  }

  std::size_t lines_, depth_;
  bool along_depth_;
  MatrixOperand operand_;
  MatrixReader reader_;
  bool plain_bf16_;
  EightBitRows bytes_;
};

// PackSource, but sums are multiplied by the scales of bf16 numbers: those are packed as they are.
class FactorSource : public PackSource {
 public:
  FactorSource(const MatrixOperand& operand, std::size_t lines, std::size_t depth,
               std::size_t line_stride, std::size_t depth_stride)
      : PackSource(without_factor(operand), lines, depth, line_stride, depth_stride),
        factor_(operand.dtype == DType::bf16 ? operand.scale : 1) {}

  float factor() const { return factor_; }
  static MatrixOperand without_factor(MatrixOperand operand) {
    if (operand.dtype == DType::bf16) operand.scale = 1;
    return operand;
  }

 private:
  float factor_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
