// Packing for the bf16 dot instruction: as in pack-inl.hpp, but a panel has two bf16 numbers that
// are adjacent along k in each float's place, [k / 2][width]. An odd last one has a zero beside it.

#if defined(SOMA_KERNELS_PACK_PAIRS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_PACK_PAIRS_INL_HPP
#undef SOMA_KERNELS_PACK_PAIRS_INL_HPP
#else
#define SOMA_KERNELS_PACK_PAIRS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/pack-inl.hpp>
#include <soma/kernels/rows-inl.hpp>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The upper halves of numbers that bf16 holds exactly. Writes whole vectors.
HWY_NOINLINE HWY_MAYBE_UNUSED static void upper_halves(const float* values, std::size_t count,
                                                       Bf16Code* codes) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const hn::Rebind<Bf16Code, Floats> narrow;
  for (std::size_t i = 0; i < count; i += float_lanes)
    hn::StoreU(
        hn::TruncateTo(narrow, hn::ShiftRight<16>(hn::BitCast(du, hn::LoadU(d, values + i)))),
        narrow, codes + i);
}

// codes[i] = table[from[i]], for all 256 codes of an 8-bit type.
HWY_NOINLINE HWY_MAYBE_UNUSED static void look_up_codes(const Bf16Code* table,
                                                        const std::byte* from, std::size_t count,
                                                        Bf16Code* codes) {
  std::size_t i = 0;
#if SOMA_HAS_BF16_DOT
  // A quarter of the table is two vectors; Highway 1.0.3 has no look-up of 16-bit lanes.
  const auto quarter = [table](std::size_t number, __m512i index) HWY_ATTR {
    return _mm512_permutex2var_epi16(_mm512_load_si512(table + 64 * number), index,
                                     _mm512_load_si512(table + 64 * number + 32));
  };
  for (; i + 32 <= count; i += 32) {
    const __m512i index = _mm512_cvtepu8_epi16(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));  // its lowest 6 bits count
    const __mmask32 odd = _mm512_test_epi16_mask(index, _mm512_set1_epi16(64));
    const __mmask32 upper = _mm512_test_epi16_mask(index, _mm512_set1_epi16(128));
    const __m512i low = _mm512_mask_blend_epi16(odd, quarter(0, index), quarter(1, index));
    const __m512i high = _mm512_mask_blend_epi16(odd, quarter(2, index), quarter(3, index));
    _mm512_storeu_si512(codes + i, _mm512_mask_blend_epi16(upper, low, high));
  }
#endif
  for (; i < count; ++i) codes[i] = table[std::to_integer<std::size_t>(from[i])];
}

// One panel from lines that are adjacent along k: pairs lie side by side already, so they are
// turned as floats are.
template <std::size_t kWidth>
HWY_NOINLINE HWY_MAYBE_UNUSED static void pack_pair_lines_panel(const Bf16Code* const* lines,
                                                                std::size_t depth, float* out) {
  const float* pairs[kWidth];  // only read as vectors, wherever they start
  for (std::size_t line = 0; line < kWidth; ++line)
    pairs[line] = reinterpret_cast<const float*>(lines[line]);
  const std::size_t whole = depth / 8 * 4;
  pack_lines_panel<kWidth>(pairs, whole, out);
  for (std::size_t k = 2 * whole; k < depth; k += 2)
    for (std::size_t line = 0; line < kWidth; ++line) {
      float* const to = out + k / 2 * kWidth + line;
      *to = 0;
      std::memcpy(to, lines[line] + k, (std::min)(depth - k, std::size_t{2}) * sizeof(Bf16Code));
    }
}

// One step of a panel, from two rows of lines of which `readable` may be read.
template <std::size_t kWidth>
HWY_INLINE void pack_pair_rows(const Bf16Code* even, const Bf16Code* odd, std::size_t readable,
                               float* out) {
  const hn::Rebind<Bf16Code, Floats> stored;
  const hn::RebindToUnsigned<Floats> du;
  alignas(64) Bf16Code edges[2][kWidth] = {};
  if (readable < kWidth) {
    std::memcpy(edges[0], even, readable * sizeof(Bf16Code));
    std::memcpy(edges[1], odd, readable * sizeof(Bf16Code));
    even = edges[0];
    odd = edges[1];
  }
  for (std::size_t at = 0; at < kWidth; at += float_lanes) {
    const auto low = hn::PromoteTo(du, hn::LoadU(stored, even + at));
    const auto high = hn::PromoteTo(du, hn::LoadU(stored, odd + at));
    hn::Store(hn::BitCast(Floats(), hn::Or(low, hn::ShiftLeft<16>(high))), Floats(), out + at);
  }
}

namespace {  // internal linkage: units with other flags have their own

// Codes that packing decodes into.
struct PairBuffer {
  static constexpr std::size_t rows = 8;  // of lines, at a time
  // Rows between what is packed and what is fetched. Of 112 lines 16 of them are 72 cache lines:
  // with 8, gradients of weights that come from memory take 1.01 times as long (AMD Zen 5).
  static constexpr std::size_t rows_ahead = 16;
  static constexpr std::size_t row_stride = pack_lines + lane_padding;
  static constexpr std::size_t line_stride = 2 * pack_depth + lane_padding;
  static constexpr std::size_t most_width = 32;
  alignas(64) Bf16Code codes[most_width * line_stride];
  alignas(64) Bf16Code zeros[(std::max)(row_stride, line_stride)] = {};
  ChunkBuffer values;
};
static_assert(PairBuffer::rows * PairBuffer::row_stride <=
              PairBuffer::most_width * PairBuffer::line_stride);
static_assert(2 * pack_depth <= row_chunk && pack_lines <= row_chunk);

// As PackSource, of operands whose stored numbers are exact in bf16.
class PairSource {
 public:
  using Buffer = PairBuffer;
  static constexpr std::size_t most_depth = 2 * pack_depth;  // in a call

  static bool takes(const MatrixOperand& operand) {
    switch (operand.dtype) {
      case DType::bf16:
        return operand.scale == 1;
      case DType::int8:
      case DType::uint8:
        return -128 <= operand.zero_point && operand.zero_point <= 128;
      default:
        return is_floating(operand.dtype) && size_of(operand.dtype) == 1;
    }
  }

  PairSource(const MatrixOperand& operand, std::size_t lines, std::size_t depth,
             std::size_t line_stride, std::size_t depth_stride)
      : lines_(lines),
        depth_(depth),
        along_depth_(depth_stride <= line_stride),
        operand_(operand),
        factor_(operand.scale) {
    operand_.row_stride = along_depth_ ? line_stride : depth_stride;
    operand_.column_stride = along_depth_ ? depth_stride : line_stride;
    operand_.scale = 1;
    reader_ = RowReader(operand_);
    direct_ = operand.dtype == DType::bf16 && operand_.column_stride == 1;
    bytes_ = size_of(operand.dtype) == 1 && operand_.column_stride == 1;
    if (bytes_) make_table();
  }

  float factor() const { return factor_; }

  // A line from a step on, where all have a float's place for each pair of steps from there on, so
  // many floats apart; or nullptr.
  const float* place(std::size_t line, std::size_t step) const {
    const auto* first = static_cast<const Bf16Code*>(operand_.data) + step;
    if (!along_depth_ || !direct_ || operand_.row_stride % 2 != 0 ||
        reinterpret_cast<std::uintptr_t>(first) % alignof(float) != 0)
      return nullptr;
    return reinterpret_cast<const float*>(first + line * operand_.row_stride);
  }
  std::size_t place_stride() const { return operand_.row_stride / 2; }

  // Panels one behind the other.
  template <std::size_t kLines, std::size_t kWidth>
  void pack(std::size_t first_line, std::size_t lines, std::size_t first, std::size_t depth,
            PairBuffer& buffer, float* out) const {
    pack<kLines, kWidth>({first_line, lines, first, depth, out, (depth + 1) / 2 * kWidth}, buffer);
  }
  template <std::size_t kLines, std::size_t kWidth>
  void pack(const PackPart& part, PairBuffer& buffer) const {
    static_assert(kWidth >= kLines && kWidth % pack_group == 0 && kWidth <= PairBuffer::most_width);
    if (along_depth_)
      pack_along_depth<kLines, kWidth>(part, buffer);
    else
      pack_along_lines<kLines, kWidth>(part, buffer);
  }

  // For tiles: panels of kWidth lines, with zeros behind the last pair up to a multiple of kUnit
  // pairs.
  template <std::size_t kWidth, std::size_t kUnit>
  void pack_units(const PackPart& part, PairBuffer& buffer) const {
    pack<kWidth, kWidth>(part, buffer);
    const std::size_t pairs = (part.depth + 1) / 2, whole = (pairs + kUnit - 1) / kUnit * kUnit;
    if (pairs == whole) return;
    float* out = part.out;
    for (std::size_t at = 0; at < part.lines; at += kWidth, out += part.panel)
      std::fill(out + pairs * kWidth, out + whole * kWidth, 0.0f);
  }

  // The same with the pairs of a line side by side: [kSide pairs][line][pair] in a panel of kSide
  // lines.
  template <std::size_t kSide>
  void pack_blocks(const PackPart& part, PairBuffer& buffer) const {
    if (!along_depth_) pack_units<kSide, kSide>(part, buffer);
    float* out = part.out;
    for (std::size_t at = 0; at < part.lines; at += kSide, out += part.panel)
      if (along_depth_)
        for (std::size_t line = 0; line < kSide; ++line)
          copy_line<kSide>(at + line < part.lines ? read(part.first_line + at + line, part.first,
                                                         part.depth, buffer, buffer.codes)
                                                  : buffer.zeros,
                           part.depth, out + line * kSide);
      else
        for (std::size_t k = 0; k < part.depth; k += 2 * kSide)
          turn_block<kSide>(out + k / 2 * kSide);
  }

 private:
  // Codes of a row, where they lie or decoded.
  const Bf16Code* read(std::size_t row, std::size_t column, std::size_t count, PairBuffer& buffer,
                       Bf16Code* codes) const {
    if (direct_)
      return static_cast<const Bf16Code*>(operand_.data) + row * operand_.row_stride + column;
    if (bytes_)
      look_up_codes(
          table_, static_cast<const std::byte*>(operand_.data) + row * operand_.row_stride + column,
          count, codes);
    else
      upper_halves(reader_.read(row, column, count, buffer.values.values), count, codes);
    return codes;
  }

  // The bf16 number of each code of an 8-bit type.
  void make_table() {
    std::byte all[256];
    for (int code = 0; code < 256; ++code) all[code] = static_cast<std::byte>(code);
    MatrixOperand every = operand_;
    every.data = all;
    alignas(64) float values[256];
    upper_halves(RowReader(every).read(0, 0, 256, values), 256, table_);
  }

  // A line of blocks that lie kLines^2 apart.
  template <std::size_t kLines>
  static void copy_line(const Bf16Code* codes, std::size_t depth, float* out) {
    const hn::CappedTag<Bf16Code, 2 * kLines> d;
    std::size_t k = 0;
    for (; k + 2 * kLines <= depth; k += 2 * kLines, out += kLines * kLines) {
      auto* to = reinterpret_cast<Bf16Code*>(out);
      for (std::size_t i = 0; i < 2 * kLines; i += hn::Lanes(d))
        hn::StoreU(hn::LoadU(d, codes + k + i), d, to + i);
    }
    if (k == depth) return;
    std::fill_n(out, kLines, 0.0f);
    std::memcpy(out, codes + k, (depth - k) * sizeof(Bf16Code));
  }

  // Rows become columns.
  template <std::size_t kLines>
  static void turn_block(float* block) {
    alignas(64) float rows[kLines * kLines];
    std::copy_n(block, kLines * kLines, rows);
    const float* lines[kLines];
    for (std::size_t i = 0; i < kLines; ++i) lines[i] = rows + i * kLines;
    for (std::size_t group = 0; group < kLines; group += pack_group)
      for (std::size_t at = 0; at < kLines; at += 4)
        turn_group(lines + group, at, block + at * kLines + group, kLines);
  }

  template <std::size_t kLines, std::size_t kWidth>
  void pack_along_depth(const PackPart& part, PairBuffer& buffer) const {
    float* out = part.out;
    for (std::size_t at = 0; at < part.lines; at += kLines, out += part.panel) {
      const Bf16Code* from[kWidth];
      const std::size_t present = (std::min)(kLines, part.lines - at);
      for (std::size_t line = 0; line < present; ++line)
        from[line] = read(part.first_line + at + line, part.first, part.depth, buffer,
                          buffer.codes + line * PairBuffer::line_stride);
      for (std::size_t line = present; line < kWidth; ++line) from[line] = buffer.zeros;
      pack_pair_lines_panel<kWidth>(from, part.depth, out);
    }
  }

  template <std::size_t kLines, std::size_t kWidth>
  void pack_along_lines(const PackPart& part, PairBuffer& buffer) const {
    const auto [first_line, lines, first, depth, out, panel] = part;
    // Lines behind those asked for may be read too: they fill places that nothing is made of.
    const std::size_t readable = direct_ ? lines_ - first_line : lines;
    for (std::size_t k = 0; k < depth; k += PairBuffer::rows) {
      const std::size_t rows = (std::min)(PairBuffer::rows, depth - k);
      const Bf16Code* from[PairBuffer::rows + 1];
      for (std::size_t row = 0; row < rows; ++row)
        from[row] = read(first + k + row, first_line, lines, buffer,
                         buffer.codes + row * PairBuffer::row_stride);
      from[rows] = nullptr;  // beside an odd last one
      // The same places of rows that are packed soon; of the last ones, of themselves.
      const bool more = first + k + PairBuffer::rows_ahead + rows <= depth_;
      const std::size_t ahead = direct_ && more ? PairBuffer::rows_ahead * operand_.row_stride : 0;
      float* to = out + k / 2 * kWidth;
      for (std::size_t at = 0; at < lines; at += kLines, to += panel)
        for (std::size_t row = 0; row < rows; row += 2) {
          hwy::Prefetch(from[row] + at + ahead);
          hwy::Prefetch(from[(std::min)(row + 1, rows - 1)] + at + ahead);
          const Bf16Code* odd = from[row + 1] != nullptr ? from[row + 1] + at : buffer.zeros;
          pack_pair_rows<kWidth>(from[row] + at, odd, readable - at, to + row / 2 * kWidth);
        }
    }
  }

  std::size_t lines_, depth_;
  bool along_depth_, direct_, bytes_;
  MatrixOperand operand_;
  float factor_;
  RowReader reader_;
  alignas(64) Bf16Code table_[256];
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
