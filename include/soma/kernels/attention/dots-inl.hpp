// Attention of bf16 queries, keys and values, by the bf16 dot instruction. Panels are those of
// attention/panels-inl.hpp with two numbers in each float's place: neighbours along a head's width,
// of keys or of queries, whichever a product sums over. Probabilities and the gradients of scores,
// which are fp32, are rounded to bf16 before they are multiplied: so every product takes half of
// the steps that multiply-adds would.
//
// Error, beside that of the sums: each weight p of a value, and each ds, is off by at most 2^-8 of
// itself. So out is off by at most 2^-8 sum |p v|, dv by 2^-8 sum |p dout|; dq and dk by 2^-7 of
// the sums of |k| or |q| times scale p (|dp| + sum |p dp|): once for ds and once for delta, which
// is made of out. The sum of probabilities, and what leaves as log-sum-exp, are of fp32
// exponentials.
//
// A pair that has one number only, because queries or keys are odd in number, has a zero beside it,
// which adds nothing: results of a query do not depend on how many others there are. Where keys are
// hidden, the number beside it may be that of a hidden key, which is multiplied by zero.

#if defined(SOMA_KERNELS_ATTENTION_DOTS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ATTENTION_DOTS_INL_HPP
#undef SOMA_KERNELS_ATTENTION_DOTS_INL_HPP
#else
#define SOMA_KERNELS_ATTENTION_DOTS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/attention/code_rows-inl.hpp>
#include <soma/kernels/attention/panels-inl.hpp>
#include <soma/kernels/attention/products-inl.hpp>
#include <soma/kernels/gemm/micro_kernel-inl.hpp>
#include <soma/simd/bf16_dot-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>

#if SOMA_HAS_BF16_DOT
HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace {  // internal linkage: units with other flags have their own

// The operands and buffers that forward and backward share.
class DotOperands {
 public:
  static constexpr std::size_t block = key_block, score_rows = key_block + row_padding;
  static_assert(block % 2 == 0);
  // Rows of scores that products of so many keys read.
  static constexpr std::size_t score_rows_read(std::size_t keys) { return rows_of_blocks(keys); }
  struct Registers {};

  // True if the dot instruction can multiply these operands: an even width has whole pairs.
  template <class... Operands>
  static bool take(const AttentionArgs& args, const Operands&... operands) {
    return args.bf16_products == Bf16Products::dot_instruction && args.width != 0 &&
           args.width % 2 == 0 && (CodeRows::take(operands) && ...);
  }

 protected:
  static constexpr std::size_t block_pairs = block / 2, query_pairs = query_panel / 2;
  static constexpr std::size_t sum_panel = query_panel * micro_columns;

  DotOperands(const AttentionArgs& args, Carver& carver)
      : args_(args),
        steps_(args.width / 2),
        turned_floats_(panel_floats(query_panel, steps_)),
        sum_floats_(panel_floats(query_panel, args.width)),
        rows_(carver.floats(panel_floats(query_panel, steps_))) {}

  // Queries of a panel as columns of pairs along the width.
  void turn_queries(const MatrixOperand& operand, std::size_t panel, float* out) {
    const std::size_t queries = queries_of(args_, panel);
    copy_pair_rows({operand, panel * query_panel}, queries, args_.width, queries, rows_);
    turn_panels(rows_, steps_, queries, out + panel * turned_floats_);
  }
  // Scores of the first `keys` keys of a block and a panel of queries, or the like.
  void multiply_rows_of_keys(std::size_t panel, std::size_t keys, const float* rows,
                             const float* queries, float* scores) const {
    multiply_keys<Bf16Dot>(keys, queries_of(args_, panel), steps_, rows, score_rows,
                           queries + panel * turned_floats_, scores);
  }
  // sums of queries (+)= weights of keys times rows of keys, both in pairs
  void add_to_queries(std::size_t panel, std::size_t keys, const float* weights, const float* pairs,
                      float* sums, bool fresh) const {
    multiply_panels<Bf16Dot, PanelColumns>(queries_of(args_, panel), args_.width, pairs_of(keys),
                                           weights, pairs, block_pairs, sums + panel * sum_floats_,
                                           sum_panel, fresh);
  }
  // Rows of panels of sums, which lie `panel` floats apart, times a factor of each where there are.
  void write_rows(const float* sums, std::size_t panel, std::size_t first, std::size_t rows,
                  const float* factors, MatrixWriter& writer) const {
    const auto write = writer.rounds_to_bf16() ? write_bf16_panels : write_panels;
    write(sums, panel, args_.width, first, rows, factors, writer);
  }
  void write_queries_of(std::size_t panel, const float* sums, const float* factors,
                        MatrixWriter& writer) const {
    write_rows(sums + panel * sum_floats_, sum_panel, panel * query_panel, queries_of(args_, panel),
               factors, writer);
  }

  const AttentionArgs& args_;
  std::size_t steps_;                       // along the width
  std::size_t turned_floats_, sum_floats_;  // of a panel of queries
  float* rows_;
};

// The operands of AttentionForward.
class ForwardDots : public DotOperands {
 public:
  ForwardDots(const AttentionArgs& args, Carver& carver)
      : DotOperands(args, carver),
        q_(carver.floats(query_panels(args.queries) * turned_floats_)),
        out_(carver.floats(query_panels(args.queries) * sum_floats_)),
        k_(carver.floats(panel_floats(score_rows, steps_))),
        v_(carver.floats(panel_floats(block_pairs, args.width))),
        weights_(carver.floats(block_pairs * micro_columns)) {}

  void take_queries(std::size_t panel) { turn_queries(args_.q, panel, q_); }
  void take_keys(std::size_t first, std::size_t keys) {
    copy_pair_rows({args_.k, first}, keys, args_.width, score_rows, k_);
    pair_code_rows({args_.v, first}, keys, args_.width, block_pairs * micro_columns, v_);
  }
  void make_scores(std::size_t panel, std::size_t keys, float* scores) const {
    multiply_rows_of_keys(panel, keys, k_, q_, scores);
  }
  void clear_sums(std::size_t panel) { std::fill_n(out_ + panel * sum_floats_, sum_floats_, 0.0f); }
  // To sums times `correction`, of each query; nullptr: to none.
  void add_values(std::size_t panel, std::size_t keys, const float* weights,
                  const float* correction) {
    const std::size_t queries = queries_of(args_, panel);
    float* const out = out_ + panel * sum_floats_;
    if (correction != nullptr)
      for (std::size_t at = 0; at < sum_floats_; at += sum_panel)
        scale_rows(out + at, queries, correction);
    round_pairs(weights, keys, columns_in_use(queries), weights_);
    add_to_queries(panel, keys, weights_, v_, out_, correction == nullptr);
  }
  // Sums, times a factor of each query.
  void write(std::size_t panel, const float* factors, MatrixWriter& writer) const {
    write_queries_of(panel, out_, factors, writer);
  }

 private:
  float *q_, *out_;  // the panels of queries, q turned
  float *k_, *v_;    // a block of keys: pairs along the width, and pairs of keys
  float* weights_;   // pairs of keys
};

// The operands of AttentionBackward.
class BackwardDots : public DotOperands {
 public:
  BackwardDots(const AttentionArgs& args, Carver& carver)
      : DotOperands(args, carver),
        pair_floats_(panel_floats(query_pairs, args.width)),
        q_(carver.floats(query_panels(args.queries) * turned_floats_)),
        dout_(carver.floats(query_panels(args.queries) * turned_floats_)),
        q_pairs_(carver.floats(query_panels(args.queries) * pair_floats_)),
        dout_pairs_(carver.floats(query_panels(args.queries) * pair_floats_)),
        dq_(carver.floats(query_panels(args.queries) * sum_floats_)),
        k_(carver.floats(panel_floats(score_rows, steps_))),
        v_(carver.floats(panel_floats(score_rows, steps_))),
        k_pairs_(carver.floats(panel_floats(block_pairs, args.width))),
        dk_(carver.floats(panel_floats(score_rows, args.width))),
        dv_(carver.floats(panel_floats(score_rows, args.width))),
        weights_(carver.floats(score_rows * float_lanes)) {
    static_assert(score_rows * float_lanes >= block_pairs * micro_columns);
  }

  void take_queries(std::size_t panel) {
    const std::size_t first = panel * query_panel, queries = queries_of(args_, panel);
    constexpr std::size_t pairs = query_pairs * micro_columns;
    turn_queries(args_.q, panel, q_);
    pair_code_rows({args_.q, first}, queries, args_.width, pairs, q_pairs_ + panel * pair_floats_);
    turn_queries(args_.dout, panel, dout_);
    pair_code_rows({args_.dout, first}, queries, args_.width, pairs,
                   dout_pairs_ + panel * pair_floats_);
  }
  void take_keys(std::size_t first, std::size_t keys) {
    copy_pair_rows({args_.k, first}, keys, args_.width, score_rows, k_);
    pair_code_rows({args_.k, first}, keys, args_.width, block_pairs * micro_columns, k_pairs_);
    copy_pair_rows({args_.v, first}, keys, args_.width, score_rows, v_);
  }
  void make_scores(std::size_t panel, std::size_t keys, float* scores, float* dp) const {
    multiply_rows_of_keys(panel, keys, k_, q_, scores);
    multiply_rows_of_keys(panel, keys, v_, dout_, dp);
  }
  // The sum of products of a query's rows of dout and of the result; false: not of their types.
  bool sum_products(std::size_t query, float& sum) const {
    if (!CodeRows::take(args_.forward_out)) return false;
    const CodeRows dout(args_.dout, query), out(args_.forward_out, query);
    sum = row_product(dout.first, out.first, args_.width);
    return true;
  }
  void clear_sums(std::size_t panel) { std::fill_n(dq_ + panel * sum_floats_, sum_floats_, 0.0f); }
  void clear_key_sums() {
    std::fill_n(dk_, panel_floats(score_rows, args_.width), 0.0f);
    std::fill_n(dv_, panel_floats(score_rows, args_.width), 0.0f);
  }
  // p and ds, in place of scores and dp.
  void add_gradients(std::size_t panel, std::size_t keys, const float* p, const float* ds,
                     const FreshSums& fresh) {
    add_to_keys(panel, keys, p, dout_pairs_, dv_, fresh.keys);
    add_to_keys(panel, keys, ds, q_pairs_, dk_, fresh.keys);
    round_pairs(ds, keys, columns_in_use(queries_of(args_, panel)), weights_);
    add_to_queries(panel, keys, weights_, k_pairs_, dq_, fresh.queries);
  }
  void write_keys(std::size_t first, std::size_t keys, MatrixWriter& dk, MatrixWriter& dv) const {
    write_rows(dk_, block_panel, first, keys, nullptr, dk);
    write_rows(dv_, block_panel, first, keys, nullptr, dv);
  }
  void write_queries(std::size_t panel, MatrixWriter& dq) const {
    write_queries_of(panel, dq_, nullptr, dq);
  }

 private:
  static constexpr std::size_t block_panel = score_rows * micro_columns;

  // sums of keys (+)= weights times pairs of a panel's queries
  void add_to_keys(std::size_t panel, std::size_t keys, const float* weights, const float* pairs,
                   float* sums, bool fresh) {
    const std::size_t queries = queries_of(args_, panel);
    round_rows(weights, score_rows_read(keys), columns_in_use(queries), weights_);
    multiply_panels<Bf16Dot, PanelRows<float_lanes>>(keys, args_.width, pairs_of(queries), weights_,
                                                     pairs + panel * pair_floats_, query_pairs,
                                                     sums, block_panel, fresh);
  }

  std::size_t pair_floats_;             // of pairs of a panel's queries
  float *q_, *dout_;                    // the panels of queries, turned
  float *q_pairs_, *dout_pairs_, *dq_;  // the panels of queries
  float *k_, *v_, *k_pairs_;            // a block of keys: pairs along the width, and of keys
  float *dk_, *dv_;                     // of that block
  float* weights_;                      // pairs of queries, or of keys
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
