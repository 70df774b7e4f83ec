// Attention by multiply-adds. Panels are read by products as they lie, on either side of them
// (attention/products-inl.hpp): nothing is packed a second time or turned but queries.

#if defined(SOMA_KERNELS_ATTENTION_VECTORS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ATTENTION_VECTORS_INL_HPP
#undef SOMA_KERNELS_ATTENTION_VECTORS_INL_HPP
#else
#define SOMA_KERNELS_ATTENTION_VECTORS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/attention/panels-inl.hpp>
#include <soma/kernels/attention/products-inl.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/kernels/gemm/pack/fp32-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most pack_depth rows of an operand of `width` columns, and row_padding of zeros.
static inline void pack_panels(const MatrixOperand& operand, std::size_t width, std::size_t first,
                               std::size_t rows, PackBuffer& buffer, float* out) {
  const PackSource source(operand, width, first + rows, operand.column_stride, operand.row_stride);
  pack_columns_whole(source, 0, width, first, rows, buffer, out);
  for (std::size_t i = 0; i < row_padding * micro_columns; i += float_lanes)
    hn::Store(hn::Zero(Floats()), Floats(), out + panel_floats(rows, width) + i);
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
    multiply_keys<FusedMultiplyAdd>(keys, queries_of(args_, panel), args_.width, k_, keys_,
                                    q_ + panel * floats_, scores);
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
    multiply_panels<FusedMultiplyAdd, PanelColumns>(queries, args_.width, keys, weights, v_, keys_,
                                                    out, query_panel * micro_columns,
                                                    correction == nullptr);
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
    multiply_keys<FusedMultiplyAdd>(keys, queries, args_.width, k_, keys_, q_ + at, scores);
    multiply_keys<FusedMultiplyAdd>(keys, queries, args_.width, v_, keys_, dout_ + at, dp);
  }
  // Rows of dout and the result are read as those of any type.
  static bool sum_products(std::size_t, float&) { return false; }
  void clear_sums(std::size_t panel) { std::fill_n(dq_ + panel * floats_, floats_, 0.0f); }
  void clear_key_sums() {
    std::fill_n(dk_, panel_floats(score_rows, args_.width), 0.0f);
    std::fill_n(dv_, panel_floats(score_rows, args_.width), 0.0f);
  }
  // p and ds, in place of scores and dp.
  void add_gradients(std::size_t panel, std::size_t keys, const float* p, const float* ds,
                     const FreshSums& fresh) {
    const std::size_t queries = queries_of(args_, panel), at = panel * floats_;
    multiply_panels<FusedMultiplyAdd, PanelRows<>>(keys, args_.width, queries, p, dout_rows_ + at,
                                                   queries, dv_, block_panel, fresh.keys);
    multiply_panels<FusedMultiplyAdd, PanelRows<>>(keys, args_.width, queries, ds, q_rows_ + at,
                                                   queries, dk_, block_panel, fresh.keys);
    multiply_panels<FusedMultiplyAdd, PanelColumns>(queries, args_.width, keys, ds, k_, keys_,
                                                    dq_ + at, query_panel * micro_columns,
                                                    fresh.queries);
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
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
