// Attention by multiply-adds. Panels are read by products as they lie, on either side of them
// (attention/panels-inl.hpp): nothing is packed a second time or turned but queries.

#if defined(SOMA_KERNELS_ATTENTION_VECTORS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ATTENTION_VECTORS_INL_HPP
#undef SOMA_KERNELS_ATTENTION_VECTORS_INL_HPP
#else
#define SOMA_KERNELS_ATTENTION_VECTORS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/attention/panels-inl.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/kernels/gemm/pack/fp32-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Keys whose scores are made together. Part of the result's definition (the largest score so far is
// brought up to date once a block), so the same on every target; a multiple of the 14 rows of
// AVX-512's micro-tiles, and enough for texts cut at 128.
inline constexpr std::size_t key_block = 140;

// Rows of a product are taken in blocks of micro_rows, the last ones in smaller blocks, for texts
// are short.
inline constexpr std::size_t middle_rows = (micro_rows / 2 + 1) / 2 * 2;
inline constexpr std::size_t small_rows = middle_rows / 2;
static constexpr std::size_t rows_of_next_block(std::size_t rows) {
  const bool two_middle = rows > micro_rows && rows <= 2 * middle_rows;
  if (rows + 1 >= micro_rows && !two_middle) return micro_rows;
  return rows > small_rows ? middle_rows : small_rows;
}
static constexpr std::size_t rows_of_blocks(std::size_t rows) {
  std::size_t taken = 0;
  while (taken < rows) taken += rows_of_next_block(rows - taken);
  return taken;
}

// So many rows beyond the last are read of the left-hand side and written. Where the rows are
// columns of a panel, they are among those in use.
inline constexpr std::size_t row_padding = (std::max)(small_rows - 1, std::size_t{1});
static_assert([] {
  for (std::size_t rows = 1; rows <= key_block; ++rows) {
    const std::size_t taken = rows_of_blocks(rows);
    if (taken > rows + row_padding) return false;
    if (rows <= micro_columns && taken > columns_in_use(rows)) return false;
  }
  return true;
}());

// At most pack_depth rows of an operand of `width` columns, and row_padding of zeros.
static inline void pack_panels(const MatrixOperand& operand, std::size_t width, std::size_t first,
                               std::size_t rows, PackBuffer& buffer, float* out) {
  const PackSource source(operand, width, first + rows, operand.column_stride, operand.row_stride);
  pack_columns_whole(source, 0, width, first, rows, buffer, out);
  for (std::size_t i = 0; i < row_padding * micro_columns; i += float_lanes)
    hn::Store(hn::Zero(Floats()), Floats(), out + panel_floats(rows, width) + i);
}

// ---- products of panels

namespace {  // internal linkage: units with other flags have their own

// Rows of a as rows of a panel: a step is a column.
struct PanelRows {
  static constexpr std::size_t row_distance = micro_columns;
  const float* at;
  HWY_INLINE ElementPlace* place(std::size_t row) const { return at + row * row_distance; }
  HWY_INLINE void next() { ++at; }
  HWY_INLINE void fetch(std::size_t) const {}
};

// Rows of a as columns of a panel: a step is a row.
struct PanelColumns {
  static constexpr std::size_t row_distance = 1;
  const float* at;
  HWY_INLINE ElementPlace* place(std::size_t row) const { return at + row * row_distance; }
  HWY_INLINE void next() { at += micro_columns; }
  HWY_INLINE void fetch(std::size_t) const {}
};

}  // namespace

template <class RowsOfA, std::size_t kRows>
static inline void multiply_rows(std::size_t columns, std::size_t steps, const float* a,
                                 const float* b, float* c, bool fresh) {
  const SumPath path{c, micro_columns, fresh};
  if (columns <= float_lanes)
    MicroKernel<FusedMultiplyAdd, RowsOfA, kRows, 1>::run(steps, {a}, b, path);
  else
    MicroKernel<FusedMultiplyAdd, RowsOfA, kRows>::run(steps, {a}, b, path);
}

// A panel c (+)= a b for a panel b of so many steps; from zero where `fresh`.
template <class RowsOfA>
HWY_NOINLINE HWY_MAYBE_UNUSED static void multiply_panel(std::size_t rows, std::size_t columns,
                                                         std::size_t steps, const float* a,
                                                         const float* b, float* c, bool fresh) {
  while (rows != 0) {
    const std::size_t taken = rows_of_next_block(rows);
    if (taken == micro_rows)
      multiply_rows<RowsOfA, micro_rows>(columns, steps, a, b, c, fresh);
    else if (taken == middle_rows)
      multiply_rows<RowsOfA, middle_rows>(columns, steps, a, b, c, fresh);
    else
      multiply_rows<RowsOfA, small_rows>(columns, steps, a, b, c, fresh);
    a += taken * RowsOfA::row_distance;
    c += taken * micro_columns;
    rows -= (std::min)(taken, rows);
  }
}

// Scores or the like of some keys and a panel of queries: rows of keys, as panels of `panel_rows`
// rows, times columns.
static inline void multiply_keys(std::size_t keys, std::size_t queries, std::size_t width,
                                 const float* panels, std::size_t panel_rows, const float* columns,
                                 float* scores) {
  if (width == 0) std::fill_n(scores, keys * micro_columns, 0.0f);
  for (std::size_t at = 0; at < width; at += micro_columns) {
    multiply_panel<PanelRows>(keys, queries, (std::min)(micro_columns, width - at), panels, columns,
                              scores, at == 0);
    panels += panel_rows * micro_columns;
    columns += micro_columns * micro_columns;
  }
}

// Panels c (+)= a b for the first `steps` rows of panels b of `b_rows` rows each. Those of c lie
// `c_panel` floats apart.
template <class RowsOfA>
static inline void multiply_panels(std::size_t rows, std::size_t width, std::size_t steps,
                                   const float* a, const float* b, std::size_t b_rows, float* c,
                                   std::size_t c_panel, bool fresh) {
  for (std::size_t at = 0; at < width; at += micro_columns) {
    multiply_panel<RowsOfA>(rows, width - at, steps, a, b, c, fresh);
    b += b_rows * micro_columns;
    c += c_panel;
  }
}

// ---- forward and backward

namespace {  // internal linkage: units with other flags have their own

// The operands of AttentionForward.
class ForwardVectors {
 public:
  static constexpr std::size_t block = key_block, score_rows = key_block + row_padding;
  // Rows of scores that products of so many keys read.
  static constexpr std::size_t score_rows_read(std::size_t keys) { return rows_of_blocks(keys); }
  struct Registers {};

  ForwardVectors(const AttentionArgs& args, Carver& carver)
      : args_(args),
        floats_(panel_floats(query_panel, args.width)),
        pack_(carver.one<PackBuffer>()),
        rows_(carver.floats(floats_ + row_padding * micro_columns)),
        q_(carver.floats(query_panels(args.queries) * floats_)),
        out_(carver.floats(query_panels(args.queries) * floats_)),
        k_(carver.floats(panel_floats(block, args.width) + row_padding * micro_columns)),
        v_(carver.floats(panel_floats(block, args.width) + row_padding * micro_columns)) {}

  void take_queries(std::size_t panel) {
    const std::size_t queries = queries_of(args_, panel);
    pack_panels(args_.q, args_.width, panel * query_panel, queries, *pack_, rows_);
    turn_panels(rows_, args_.width, queries, q_ + panel * floats_);
  }
  void take_keys(std::size_t first, std::size_t keys) {
    keys_ = keys;
    pack_panels(args_.k, args_.width, first, keys, *pack_, k_);
    pack_panels(args_.v, args_.width, first, keys, *pack_, v_);
  }
  // Scores of the first `keys` keys of the block.
  void make_scores(std::size_t panel, std::size_t keys, float* scores) const {
    multiply_keys(keys, queries_of(args_, panel), args_.width, k_, keys_, q_ + panel * floats_,
                  scores);
  }
  void clear_sums(std::size_t panel) { std::fill_n(out_ + panel * floats_, floats_, 0.0f); }
  // To sums times `correction`, of each query; nullptr: to none.
  void add_values(std::size_t panel, std::size_t keys, const float* weights,
                  const float* correction) {
    const std::size_t queries = queries_of(args_, panel);
    float* const out = out_ + panel * floats_;
    if (correction != nullptr)
      for (std::size_t at = 0; at < floats_; at += query_panel * micro_columns)
        scale_rows(out + at, queries, correction);
    multiply_panels<PanelColumns>(queries, args_.width, keys, weights, v_, keys_, out,
                                  query_panel * micro_columns, correction == nullptr);
  }
  // Sums, times a factor of each query.
  void write(std::size_t panel, const float* factors, MatrixWriter& writer) {
    write_panels(out_ + panel * floats_, query_panel * micro_columns, args_.width,
                 panel * query_panel, queries_of(args_, panel), factors, writer);
  }

 private:
  const AttentionArgs& args_;
  std::size_t floats_;  // floats in the rows of a panel of queries
  PackBuffer* pack_;
  float* rows_;           // the rows of a panel of queries
  float *q_, *out_;       // the panels of queries, q turned
  float *k_, *v_;         // a block of keys, as panels
  std::size_t keys_ = 0;  // keys of the current block
};

// The operands of AttentionBackward.
class BackwardVectors {
 public:
  static constexpr std::size_t block = key_block, score_rows = key_block + row_padding;
  // Rows of scores that products of so many keys read.
  static constexpr std::size_t score_rows_read(std::size_t keys) { return rows_of_blocks(keys); }
  struct Registers {};

  BackwardVectors(const AttentionArgs& args, Carver& carver)
      : args_(args),
        floats_(panel_floats(query_panel, args.width) + row_padding * micro_columns),
        pack_(carver.one<PackBuffer>()),
        q_(carver.floats(query_panels(args.queries) * floats_)),
        dout_(carver.floats(query_panels(args.queries) * floats_)),
        q_rows_(carver.floats(query_panels(args.queries) * floats_)),
        dout_rows_(carver.floats(query_panels(args.queries) * floats_)),
        dq_(carver.floats(query_panels(args.queries) * floats_)),
        k_(carver.floats(panel_floats(score_rows, args.width))),
        v_(carver.floats(panel_floats(score_rows, args.width))),
        dk_(carver.floats(panel_floats(score_rows, args.width))),
        dv_(carver.floats(panel_floats(score_rows, args.width))) {}

  void take_queries(std::size_t panel) {
    take_queries(args_.q, panel, q_rows_ + panel * floats_, q_ + panel * floats_);
    take_queries(args_.dout, panel, dout_rows_ + panel * floats_, dout_ + panel * floats_);
  }
  void take_keys(std::size_t first, std::size_t keys) {
    keys_ = keys;
    pack_panels(args_.k, args_.width, first, keys, *pack_, k_);
    pack_panels(args_.v, args_.width, first, keys, *pack_, v_);
  }
  void make_scores(std::size_t panel, std::size_t keys, float* scores, float* dp) const {
    const std::size_t queries = queries_of(args_, panel), at = panel * floats_;
    multiply_keys(keys, queries, args_.width, k_, keys_, q_ + at, scores);
    multiply_keys(keys, queries, args_.width, v_, keys_, dout_ + at, dp);
  }
  void clear_sums(std::size_t panel) { std::fill_n(dq_ + panel * floats_, floats_, 0.0f); }
  void clear_key_sums() {
    std::fill_n(dk_, panel_floats(score_rows, args_.width), 0.0f);
    std::fill_n(dv_, panel_floats(score_rows, args_.width), 0.0f);
  }
  // p and ds, in place of scores and dp.
  void add_gradients(std::size_t panel, std::size_t keys, const float* p, const float* ds,
                     const FreshSums& fresh) {
    const std::size_t queries = queries_of(args_, panel), at = panel * floats_;
    multiply_panels<PanelRows>(keys, args_.width, queries, p, dout_rows_ + at, queries, dv_,
                               block_panel, fresh.keys);
    multiply_panels<PanelRows>(keys, args_.width, queries, ds, q_rows_ + at, queries, dk_,
                               block_panel, fresh.keys);
    multiply_panels<PanelColumns>(queries, args_.width, keys, ds, k_, keys_, dq_ + at,
                                  query_panel * micro_columns, fresh.queries);
  }
  void write_keys(std::size_t first, std::size_t keys, MatrixWriter& dk, MatrixWriter& dv) {
    write_panels(dk_, block_panel, args_.width, first, keys, nullptr, dk);
    write_panels(dv_, block_panel, args_.width, first, keys, nullptr, dv);
  }
  void write_queries(std::size_t panel, MatrixWriter& dq) {
    write_panels(dq_ + panel * floats_, query_panel * micro_columns, args_.width,
                 panel * query_panel, queries_of(args_, panel), nullptr, dq);
  }

 private:
  static constexpr std::size_t block_panel = score_rows * micro_columns;

  void take_queries(const MatrixOperand& operand, std::size_t panel, float* rows, float* columns) {
    const std::size_t queries = queries_of(args_, panel);
    pack_panels(operand, args_.width, panel * query_panel, queries, *pack_, rows);
    turn_panels(rows, args_.width, queries, columns);
  }

  const AttentionArgs& args_;
  std::size_t floats_;  // floats in the rows of a panel of queries
  PackBuffer* pack_;
  float *q_, *dout_, *q_rows_, *dout_rows_;  // the panels of queries, the first two turned
  float* dq_;
  float *k_, *v_, *dk_, *dv_;  // a block of keys, as panels
  std::size_t keys_ = 0;       // keys of the current block
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
