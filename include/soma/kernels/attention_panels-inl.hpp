// What forward and backward attention share. Scores are kept across, s^T: a panel has keys as rows
// and micro_columns queries side by side. So softmax has no sums across a vector, and what it
// leaves is already packed as the right-hand side of the next product.

#if defined(SOMA_KERNELS_ATTENTION_PANELS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ATTENTION_PANELS_INL_HPP
#undef SOMA_KERNELS_ATTENTION_PANELS_INL_HPP
#else
#define SOMA_KERNELS_ATTENTION_PANELS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/attention_args.hpp>
#include <soma/kernels/evict-inl.hpp>
#include <soma/kernels/gemm_micro-inl.hpp>
#include <soma/kernels/pack-inl.hpp>
#include <soma/simd/math-inl.hpp>
#include <soma/simd/philox-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Keys whose scores are made together. Part of the result's definition (the largest score so far is
// brought up to date once a block), so the same on every target; a multiple of the 14 rows of
// AVX-512's micro-tiles, and enough for texts cut at 128.
inline constexpr std::size_t key_block = 140;
inline constexpr std::size_t query_panel = micro_columns;

static constexpr std::size_t whole_units(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

namespace {  // internal linkage: units with other flags have their own

// Hands out parts of a workspace; without one it counts bytes.
class Carver {
 public:
  explicit Carver(std::byte* start) : start_(start) {}
  float* floats(std::size_t count) {
    return reinterpret_cast<float*>(bytes(count * sizeof(float)));
  }
  std::byte* bytes(std::size_t count) {
    std::byte* part = start_ != nullptr ? start_ + used_ : nullptr;
    used_ += whole_units(count, 64);
    return part;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* start_;
  std::size_t used_ = 0;
};

}  // namespace

// ---- operands of any depth: panels one after another, cut along k into pieces of pack_depth

// Floats of packed lines.
static constexpr std::size_t packed_rows_floats(std::size_t lines, std::size_t depth) {
  return whole_units(lines, micro_rows) / micro_rows * micro_row_width * depth;
}
static constexpr std::size_t packed_columns_floats(std::size_t lines, std::size_t depth) {
  return whole_units(lines, micro_columns) * depth;
}

template <std::size_t kLines, std::size_t kWidth>
static inline void pack_whole(const PackSource& source, std::size_t first_line, std::size_t lines,
                              std::size_t first, std::size_t depth, PackBuffer& buffer,
                              float* out) {
  constexpr std::size_t step = pack_lines / kLines * kLines;
  for (std::size_t k = 0; k < depth; k += pack_depth) {
    const std::size_t part = (std::min)(pack_depth, depth - k);
    for (std::size_t line = 0; line < lines; line += step) {
      const std::size_t count = (std::min)(step, lines - line);
      source.pack<kLines, kWidth>(first_line + line, count, first + k, part, buffer, out);
      out += whole_units(count, kLines) / kLines * kWidth * part;
    }
  }
}

static inline void pack_rows_whole(const PackSource& source, std::size_t first_line,
                                   std::size_t lines, std::size_t first, std::size_t depth,
                                   PackBuffer& buffer, float* out) {
  pack_whole<micro_rows, micro_row_width>(source, first_line, lines, first, depth, buffer, out);
}
static inline void pack_columns_whole(const PackSource& source, std::size_t first_line,
                                      std::size_t lines, std::size_t first, std::size_t depth,
                                      PackBuffer& buffer, float* out) {
  pack_whole<micro_columns, micro_columns>(source, first_line, lines, first, depth, buffer, out);
}

// c (+)= a b for operands packed so; from zero where `fresh`.
HWY_NOINLINE HWY_MAYBE_UNUSED static void multiply_whole(std::size_t rows, std::size_t columns,
                                                         std::size_t depth, const float* a,
                                                         const float* b, float* c,
                                                         std::size_t stride, bool fresh) {
  if (depth == 0 && fresh)
    for (std::size_t row = 0; row < rows; ++row) std::fill_n(c + row * stride, columns, 0.0f);
  for (std::size_t k = 0; k < depth; k += pack_depth) {
    const std::size_t part = (std::min)(pack_depth, depth - k);
    const SumPath path{c, stride, fresh && k == 0};
    multiply_panels(rows, columns, part, a, b, path);
    a += packed_rows_floats(rows, part);
    b += packed_columns_floats(columns, part);
  }
}

// ---- steps on panels of query_panel columns

HWY_NOINLINE HWY_MAYBE_UNUSED static void scale_panel(float* panel, std::size_t rows,
                                                      float factor) {
  const Floats d;
  const auto f = hn::Set(d, factor);
  for (std::size_t i = 0; i < rows * query_panel; i += float_lanes)
    hn::Store(hn::Mul(hn::Load(d, panel + i), f), d, panel + i);
}

// Every row times `factors`, one for each column.
HWY_NOINLINE HWY_MAYBE_UNUSED static void scale_columns(float* panel, std::size_t rows,
                                                        const float* factors) {
  const Floats d;
  for (std::size_t at = 0; at < query_panel; at += float_lanes) {
    const auto f = hn::Load(d, factors + at);
    for (std::size_t row = 0; row < rows; ++row) {
      float* x = panel + row * query_panel + at;
      hn::Store(hn::Mul(hn::Load(d, x), f), d, x);
    }
  }
}

namespace {  // internal linkage: units with other flags have their own

// Random words of a panel: keys as rows, queries as columns.
struct WordPanel {
  static constexpr std::size_t stride = key_block + 8 + philox_padding;
  float* across;  // [query_panel][stride]
  float* words;   // [key_block][query_panel]

  explicit WordPanel(Carver& carver)
      : across(carver.floats(query_panel * stride)),
        words(carver.floats(key_block * query_panel)) {}

  // For `keys` keys from first_key on and the query_panel queries from first_query on. Words pass
  // as floats: they are only moved.
  void draw(const DropoutArgs& dropout, std::size_t first_query, std::size_t first_key,
            std::size_t keys) {
    const float* lines[query_panel];
    for (std::size_t query = 0; query < query_panel; ++query) {
      const std::uint64_t index =
          dropout.draw.index + (std::uint64_t{first_query + query} << 16) + first_key;
      const auto lead = static_cast<std::size_t>(index % 4);
      float* row = across + query * stride;
      philox_words(dropout.draw, index / 4, (lead + keys + 3) / 4,
                   reinterpret_cast<std::uint32_t*>(row));
      lines[query] = row + lead;
    }
    pack_lines_panel<query_panel>(lines, keys, words);
  }
};

}  // namespace

// Writes the rows of an operand of `width` columns from a panel that has them as columns; rows
// `first` ..., at most query_panel. `buffer` has room for them.
static inline void write_turned(const float* panel, std::size_t width, std::size_t first,
                                std::size_t rows, float* buffer, RowWriter& writer) {
  const std::size_t stride = whole_units(width, pack_group);
  const float* lines[pack_group];
  for (std::size_t group = 0; group < width; group += pack_group) {
    for (std::size_t line = 0; line < pack_group; ++line)
      lines[line] = panel + (group + line) * query_panel;
    for (std::size_t at = 0; at < query_panel; at += 4)
      turn_group(lines, at, buffer + at * stride + group, stride);
  }
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t at = 0; at < width; at += row_chunk)
      writer.write(first + row, at, buffer + row * stride + at, (std::min)(row_chunk, width - at));
}

// Rows of a panel that is made of `width` rows by products and read by write_turned.
static constexpr std::size_t turned_rows(std::size_t width) {
  return (std::max)(whole_units(width, micro_rows), whole_units(width, pack_group));
}

// Zeros, through the target's rounding as any value.
static inline void write_zeros(RowWriter& writer, std::size_t rows, std::size_t columns,
                               ChunkBuffer& buffer) {
  std::fill_n(buffer.values, row_chunk, 0.0f);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t at = 0; at < columns; at += row_chunk)
      writer.write(row, at, buffer.values, (std::min)(row_chunk, columns - at));
}

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
