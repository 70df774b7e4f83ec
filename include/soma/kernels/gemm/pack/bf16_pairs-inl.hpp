// Packing for the bf16 dot instruction. It works as in gemm/pack/fp32-inl.hpp, but each float of a
// panel holds two bf16 numbers that are adjacent along k: [k / 2][width]. If k is odd, the last
// number has a zero beside it.

#if defined(SOMA_KERNELS_GEMM_PACK_BF16_PAIRS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_GEMM_PACK_BF16_PAIRS_INL_HPP
#undef SOMA_KERNELS_GEMM_PACK_BF16_PAIRS_INL_HPP
#else
#define SOMA_KERNELS_GEMM_PACK_BF16_PAIRS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/gemm/pack/fp32-inl.hpp>
#include <soma/kernels/gemm/pack/panels_8bit-inl.hpp>
#include <soma/kernels/gemm/pack/rows_8bit-inl.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>

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

// Packs a panel from lines that are adjacent along k. Pairs are adjacent already, so they are
// transposed as floats are.
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

// Packs one step of a panel from two rows of lines. `readable` lines may be read.
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

// The memory into which packing decodes codes.
struct PairBuffer {
  static constexpr std::size_t rows = 8;  // rows of lines at a time
  // Rows between the row that is packed and the row that is prefetched. 16 rows of 112 lines are 72
  // cache lines: with 8 rows, gradients of weights that come from memory take 1.01 times as long
  // (AMD Zen 5).
  static constexpr std::size_t rows_ahead = 16;
  static constexpr std::size_t lines_ahead = 4;  // the same for lines that are laid, which are long
  static constexpr std::size_t row_stride = pack_lines + lane_padding;
  static constexpr std::size_t line_stride = 2 * pack_depth + lane_padding;
  static constexpr std::size_t most_width = 32;
  alignas(64) Bf16Code codes[most_width * line_stride];
  alignas(64) Bf16Code zeros[(std::max)(row_stride, 2 * pack_direct_depth)] = {};
  // The block of pairs that is transposed at a time; it stays in the first-level cache.
  static constexpr std::size_t block_floats = 2048;
  alignas(64) float blocks[block_floats];
  ChunkBuffer values;
};
static_assert(PairBuffer::rows * PairBuffer::row_stride <=
              PairBuffer::most_width * PairBuffer::line_stride);
static_assert(2 * pack_depth <= row_chunk && pack_lines <= row_chunk);

// The counterpart of PackSource for operands whose stored numbers are exact in bf16.
class PairSource {
 public:
  using Buffer = PairBuffer;

  static bool takes(const MatrixOperand& operand) {
    if (operand.dtype == DType::bf16) return true;
    return EightBitRows::are_exact(operand);
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
    reader_ = MatrixReader(operand_);
    direct_ = operand.dtype == DType::bf16 && operand_.column_stride == 1;
    if (EightBitRows::take(operand_))
      bytes_ = EightBitRows(operand_, along_depth_ ? lines : depth, true);
  }

  float factor() const { return factor_; }

  // The address of a line from a step on if lines can be read in place, with a float for each pair
  // of steps and place_stride() floats apart; else nullptr.
  const float* place(std::size_t line, std::size_t step) const {
    const auto* first = static_cast<const Bf16Code*>(operand_.data) + step;
    if (!along_depth_ || !direct_ || operand_.row_stride % 2 != 0 ||
        reinterpret_cast<std::uintptr_t>(first) % alignof(float) != 0)
      return nullptr;
    return reinterpret_cast<const float*>(first + line * operand_.row_stride);
  }
  std::size_t place_stride() const { return operand_.row_stride / 2; }

  // Most steps in a call.
  std::size_t most_depth() const { return 2 * (direct_ ? pack_direct_depth : pack_depth); }

  // True if numbers are read as they are stored.
  bool direct() const { return direct_; }

  // True if lay() can write whole lines in the layout of place(): `depth` steps from `first` on,
  // `stride` floats apart.
  bool can_lay() const { return along_depth_ && (direct_ || bytes_.present()); }
  void lay(std::size_t first_line, std::size_t lines, std::size_t first, std::size_t depth,
           std::size_t stride, float* out) const {
    auto* codes = reinterpret_cast<Bf16Code*>(out);
    if (bytes_.present())
      return bytes_.read({first_line, lines, first, depth}, PairBuffer::lines_ahead, codes,
                         2 * stride);
    for (std::size_t line = 0; line < lines; ++line, codes += 2 * stride)
      std::memcpy(codes, codes_at(first_line + line, first), depth * sizeof(Bf16Code));
  }

  // Packs panels, one after another.
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

  // For tiles: panels of kWidth lines, with zeros after the last pair up to a multiple of kUnit
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

  // The same with the pairs of a line adjacent: [kSide pairs][line][pair] in a panel of kSide
  // lines.
  template <std::size_t kSide>
  void pack_blocks(const PackPart& part, PairBuffer& buffer) const {
    if (!along_depth_) return turn_blocks<kSide>(part, buffer);
    float* out = part.out;
    for (std::size_t at = 0; at < part.lines; at += kSide, out += part.panel) {
      const Bf16Code* from[kSide];
      const std::size_t present = (std::min)(kSide, part.lines - at);
      read({part.first_line + at, present, part.first, part.depth}, kSide, PairBuffer::line_stride,
           buffer, from);
      for (std::size_t line = 0; line < kSide; ++line)
        copy_line<kSide>(line < present ? from[line] : buffer.zeros, part.depth,
                         out + line * kSide);
    }
  }

 private:
  // Points from[i] to the codes of row i: the stored codes, or a copy decoded into the buffer,
  // `stride` apart. For 8-bit types, the rows `ahead` of these are prefetched.
  void read(const RowsPart& part, std::size_t ahead, std::size_t stride, PairBuffer& buffer,
            const Bf16Code** from) const {
    for (std::size_t i = 0; i < part.rows; ++i)
      from[i] = direct_ ? codes_at(part.row + i, part.column) : buffer.codes + i * stride;
    if (direct_) return;
    if (bytes_.present()) return bytes_.read(part, ahead, buffer.codes, stride);
    for (std::size_t i = 0; i < part.rows; ++i)
      upper_halves(reader_.read(part.row + i, part.column, part.count, buffer.values.values),
                   part.count, buffer.codes + i * stride);
  }

  const Bf16Code* codes_at(std::size_t row, std::size_t column) const {
    return static_cast<const Bf16Code*>(operand_.data) + row * operand_.row_stride + column;
  }

  // Transposes a row of blocks that are kLines^2 apart.
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

  // Packs blocks of lines that are columns in memory, through the buffer, where they are
  // transposed.
  template <std::size_t kSide>
  void turn_blocks(const PackPart& part, PairBuffer& buffer) const {
    constexpr std::size_t block = kSide * kSide;
    constexpr std::size_t together = PairBuffer::block_floats / kSide;
    for (std::size_t k = 0; k < part.depth; k += 2 * kSide)
      for (std::size_t line = 0; line < part.lines; line += together) {
        const std::size_t lines = (std::min)(together, part.lines - line);
        const std::size_t depth = (std::min)(2 * kSide, part.depth - k);
        const PackPart pairs{part.first_line + line, lines, part.first + k, depth,
                             buffer.blocks,          block};
        if (direct_)
          pair_rows<kSide>(pairs, buffer);
        else
          pack_units<kSide, kSide>(pairs, buffer);
        float* to = part.out + line / kSide * part.panel + k / 2 * kSide;
        for (std::size_t at = 0; at < lines; at += kSide, to += part.panel)
          turn_block<kSide>(buffer.blocks + at * kSide, to);
      }
  }
  // Packs a step of blocks of kSide pairs from stored rows. It reads one pair of rows after the
  // other, because the CPU's own prefetcher follows that order best, and prefetches the same part
  // of the rows of the next step.
  template <std::size_t kSide>
  void pair_rows(const PackPart& part, const PairBuffer& buffer) const {
    const std::size_t readable = lines_ - part.first_line, stride = operand_.row_stride;
    const bool more = part.first + 4 * kSide <= depth_;
    const std::size_t ahead = more ? 2 * kSide * stride : 0;
    const auto row = [&](std::size_t k) {
      return k < part.depth ? codes_at(part.first + k, part.first_line) : buffer.zeros;
    };
    for (std::size_t k = 0; k < 2 * kSide; k += 2) {
      const Bf16Code *const even = row(k), *const odd = row(k + 1);
      float* to = part.out + k / 2 * kSide;
      for (std::size_t at = 0; at < part.lines; at += kSide, to += part.panel) {
        if (k + 1 < part.depth) hwy::Prefetch(even + at + ahead), hwy::Prefetch(odd + at + ahead);
        pack_pair_rows<kSide>(even + at, odd + at, readable - at, to);
      }
    }
  }
  // Transposes: rows become columns.
  template <std::size_t kLines>
  static void turn_block(const float* block, float* to) {
    const float* lines[kLines];
    for (std::size_t i = 0; i < kLines; ++i) lines[i] = block + i * kLines;
    for (std::size_t group = 0; group < kLines; group += pack_group)
      for (std::size_t at = 0; at < kLines; at += 4)
        turn_group(lines + group, at, to + at * kLines + group, kLines);
  }

  template <std::size_t kLines, std::size_t kWidth>
  void pack_along_depth(PackPart part, PairBuffer& buffer) const {
#if SOMA_HAS_BF16_DOT
    if (bytes_.present()) {
      const EightBitPanels<kLines, kWidth> panels(bytes_, part.out, part.panel);
      const std::size_t turned = part.depth / panels.turned * panels.turned;
      panels.turn({part.first_line, part.lines, part.first, turned}, kLines);
      part.first += turned, part.depth -= turned, part.out += turned / 2 * kWidth;
      if (part.depth == 0) return;
    }
#endif
    float* out = part.out;
    for (std::size_t at = 0; at < part.lines; at += kLines, out += part.panel) {
      const Bf16Code* from[kWidth];
      const std::size_t present = (std::min)(kLines, part.lines - at);
      read({part.first_line + at, present, part.first, part.depth}, kLines, PairBuffer::line_stride,
           buffer, from);
      for (std::size_t line = present; line < kWidth; ++line) from[line] = buffer.zeros;
      pack_pair_lines_panel<kWidth>(from, part.depth, out);
    }
  }

  template <std::size_t kLines, std::size_t kWidth>
  void pack_along_lines(const PackPart& part, PairBuffer& buffer) const {
    const auto [first_line, lines, first, depth, out, panel] = part;
    // Lines after the last requested line may be read too: their numbers go to places that no
    // result depends on.
    const std::size_t readable = direct_ ? lines_ - first_line : lines;
    std::size_t k = 0;
#if SOMA_HAS_BF16_DOT
    if (bytes_.present()) {
      k = depth / 2 * 2;
      EightBitPanels<kLines, kWidth>(bytes_, out, panel)
          .pair({first, k, first_line, lines}, PairBuffer::rows_ahead);
    }
#endif
    for (; k < depth; k += PairBuffer::rows) {
      const std::size_t rows = (std::min)(PairBuffer::rows, depth - k);
      const Bf16Code* from[PairBuffer::rows + 1];
      read({first + k, rows, first_line, lines}, PairBuffer::rows_ahead, PairBuffer::row_stride,
           buffer, from);
      from[rows] = nullptr;  // beside an odd last one
      // Prefetches the same places of the rows that are packed next, or of the same rows if they
      // are the last ones.
      const bool more = direct_ && first + k + PairBuffer::rows_ahead + rows <= depth_;
      const std::size_t ahead = more ? PairBuffer::rows_ahead * operand_.row_stride : 0;
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
  bool along_depth_, direct_;
  MatrixOperand operand_;
  float factor_;
  MatrixReader reader_;
  EightBitRows bytes_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
