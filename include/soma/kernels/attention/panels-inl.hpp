// Code that forward and backward attention share, for all ways of forming products. Matrices are
// kept as panels of micro_columns columns, each [rows][micro_columns]. Scores are stored
// transposed, s^T, with keys as rows and queries side by side, so that softmax needs no sum across
// the lanes of a vector.

#if defined(SOMA_KERNELS_ATTENTION_PANELS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ATTENTION_PANELS_INL_HPP
#undef SOMA_KERNELS_ATTENTION_PANELS_INL_HPP
#else
#define SOMA_KERNELS_ATTENTION_PANELS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/attention/args.hpp>
#include <soma/kernels/gemm/epilogue-inl.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/kernels/gemm/pack/fp32-inl.hpp>
#include <soma/simd/math-inl.hpp>
#include <soma/simd/philox-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
  // One of T, whose values do not matter.
  template <class T>
  T* one() {
    std::byte* const part = bytes(sizeof(T));
    return part != nullptr ? new (part) T : nullptr;
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* start_;
  std::size_t used_ = 0;
};

}  // namespace

static constexpr std::size_t query_panels(std::size_t queries) {
  return (queries + query_panel - 1) / query_panel;
}
static inline std::size_t queries_of(const AttentionArgs& args, std::size_t panel) {
  return (std::min)(query_panel, args.queries - panel * query_panel);
}

// ---- panels

static constexpr std::size_t panels_of(std::size_t columns) {
  return (columns + micro_columns - 1) / micro_columns;
}
static constexpr std::size_t panel_floats(std::size_t rows, std::size_t columns) {
  return rows * panels_of(columns) * micro_columns;
}

// Columns that steps and products take of a panel with so many.
static constexpr std::size_t columns_in_use(std::size_t columns) {
  return columns <= float_lanes ? float_lanes : micro_columns;
}

// Lines of an operand become columns, its depth rows. Panels of more than pack_depth rows are cut
// into some of so many, one behind the other.
static inline void pack_columns_whole(const PackSource& source, std::size_t first_line,
                                      std::size_t lines, std::size_t first, std::size_t depth,
                                      PackBuffer& buffer, float* out) {
  constexpr std::size_t step = pack_lines / micro_columns * micro_columns;
  for (std::size_t k = 0; k < depth; k += pack_depth) {
    const std::size_t part = (std::min)(pack_depth, depth - k);
    for (std::size_t line = 0; line < lines; line += step) {
      const std::size_t count = (std::min)(step, lines - line);
      source.pack<micro_columns, micro_columns>(first_line + line, count, first + k, part, buffer,
                                                out);
      out += panel_floats(part, count);
    }
  }
}

// The panel of columns_in_use(rows) columns that has the rows of such panels as its columns, zeros
// where there are none; `width` rows rounded up to a multiple of 4.
static inline void turn_panels(const float* panels, std::size_t width, std::size_t rows,
                               float* out) {
  const float* lines[pack_group];
  for (std::size_t at = 0; at < width; at += micro_columns, panels += rows * micro_columns) {
    const std::size_t columns = (std::min)(micro_columns, width - at);
    for (std::size_t group = 0; group < columns_in_use(rows); group += pack_group) {
      for (std::size_t i = 0; i < pack_group; ++i)
        lines[i] = group + i < rows ? panels + (group + i) * micro_columns : PackBuffer::no_values;
      for (std::size_t column = 0; column < columns; column += 4)
        turn_group(lines, column, out + (at + column) * micro_columns + group, micro_columns);
    }
  }
}

// At most micro_columns floats of a panel's row, times a factor.
HWY_INLINE void copy_row(const float* row, std::size_t count, FloatVector factor, float* out) {
  const Floats d;
  std::size_t i = 0;
  for (; i + float_lanes <= count; i += float_lanes)
    hn::StoreU(hn::Mul(hn::Load(d, row + i), factor), d, out + i);
  if (i == count) return;
  alignas(64) float last[float_lanes];
  hn::Store(hn::Mul(hn::Load(d, row + i), factor), d, last);
  std::memcpy(out + i, last, (count - i) * sizeof(float));
}

// Writes rows `first` ... of a target: rows of panels that lie `panel` floats apart, times a factor
// for each if there are any.
HWY_NOINLINE HWY_MAYBE_UNUSED static void write_panels(const float* panels, std::size_t panel,
                                                       std::size_t width, std::size_t first,
                                                       std::size_t rows, const float* factors,
                                                       MatrixWriter& writer) {
  static_assert(row_chunk % micro_columns == 0);
  for (std::size_t row = 0; row < rows; ++row) {
    const FloatVector factor = hn::Set(Floats(), factors != nullptr ? factors[row] : 1.0f);
    const float* from = panels + row * micro_columns;
    for (std::size_t start = 0; start < width; start += row_chunk) {
      const std::size_t count = (std::min)(row_chunk, width - start);
      float* const to = writer.place(first + row, start);
      for (std::size_t at = 0; at < count; at += micro_columns, from += panel)
        copy_row(from, (std::min)(micro_columns, count - at), factor, to + at);
      writer.finish(first + row, start, count);
    }
  }
}

// ---- steps on panels

HWY_NOINLINE HWY_MAYBE_UNUSED static void scale_panel(float* panel, std::size_t rows,
                                                      std::size_t columns, float factor) {
  const Floats d;
  const auto f = hn::Set(d, factor);
  for (std::size_t at = 0; at < columns; at += float_lanes)
    for (std::size_t row = 0; row < rows; ++row) {
      float* x = panel + row * micro_columns + at;
      hn::Store(hn::Mul(hn::Load(d, x), f), d, x);
    }
}

// Every row times a factor of its own.
HWY_NOINLINE HWY_MAYBE_UNUSED static void scale_rows(float* panel, std::size_t rows,
                                                     const float* factors) {
  const Floats d;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto f = hn::Set(d, factors[row]);
    for (std::size_t at = 0; at < micro_columns; at += float_lanes) {
      float* x = panel + row * micro_columns + at;
      hn::Store(hn::Mul(hn::Load(d, x), f), d, x);
    }
  }
}

// Random words for some keys from first_key on, as rows, and a panel of queries from first_query
// on, as columns. `room` is that of word_rows(keys) rows.
static constexpr std::size_t word_rows(std::size_t keys) { return keys + 6; }
static inline const std::uint32_t* draw_panel(const DropoutArgs& dropout, std::size_t first_query,
                                              std::size_t queries, std::size_t first_key,
                                              std::size_t keys, float* room) {
  const std::uint64_t index = dropout.draw.index + (std::uint64_t{first_query} << 16) + first_key;
  return philox_columns(dropout.draw, index, std::uint64_t{1} << 16, columns_in_use(queries), keys,
                        micro_columns, reinterpret_cast<std::uint32_t*>(room));
}

// ---- what queries see

static inline bool sees_some(const AttentionArgs& args) {
  return args.causal || args.mask != nullptr;
}
// How many keys of a block, from its first on, some query of the panel sees: all behind are hidden.
static inline std::size_t keys_seen(const AttentionArgs& args, std::size_t panel, std::size_t first,
                                    std::size_t keys) {
  const std::size_t at = panel * query_panel, queries = queries_of(args, panel);
  std::size_t seen = keys;
  if (args.causal) {
    const std::size_t end = args.earlier + at + queries;
    seen = end > first ? (std::min)(keys, end - first) : 0;
  }
  if (args.mask == nullptr) return seen;
  std::size_t last = 0;
  for (std::size_t query = at; query < at + queries; ++query) {
    const std::uint8_t* const row = args.mask + query * args.keys + first;
    std::size_t most = seen;
    while (most > last && row[most - 1] == 0) --most;
    last = most;
  }
  return last;
}
// Scores of a panel become -infinity where a query does not see a key.
HWY_NOINLINE HWY_MAYBE_UNUSED static void hide_scores(const AttentionArgs& args, std::size_t panel,
                                                      std::size_t first, std::size_t keys,
                                                      float* scores) {
  constexpr float hidden = -std::numeric_limits<float>::infinity();
  const std::size_t at = panel * query_panel, queries = queries_of(args, panel),
                    columns = columns_in_use(queries);
  if (args.causal) {
    const std::size_t own = args.earlier + at;  // the last key that the panel's first query sees
    for (std::size_t key = first > own ? 0 : own + 1 - first; key < keys; ++key)
      std::fill_n(scores + key * micro_columns, (std::min)(first + key - own, columns), hidden);
  }
  if (args.mask == nullptr) return;
  for (std::size_t query = 0; query < queries; ++query) {
    const std::uint8_t* const row = args.mask + (at + query) * args.keys + first;
    for (std::size_t key = 0; key < keys; ++key)
      if (row[key] == 0) scores[key * micro_columns + query] = hidden;
  }
}
// Marks the sums of backward that begin with this product: they are set, and all others are added
// to.
struct FreshSums {
  bool queries = false, keys = false;
};
static inline void clear_rows(float* panel, std::size_t first, std::size_t last) {
  if (first < last)
    std::fill_n(panel + first * micro_columns, (last - first) * micro_columns, 0.0f);
}

// Zeros, through the target's rounding as any value.
static inline void write_zeros(MatrixWriter& writer, std::size_t rows, std::size_t columns,
                               ChunkBuffer& buffer) {
  std::fill_n(buffer.values, row_chunk, 0.0f);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t at = 0; at < columns; at += row_chunk)
      writer.write(row, at, buffer.values, (std::min)(row_chunk, columns - at));
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
