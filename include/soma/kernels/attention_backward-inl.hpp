// Backward attention. With p recomputed from the saved log-sum-exp, dp = dout v^T and delta the row
// sums of dout * out:
//
//   ds = p (drop(dp) - delta) scale     dv = drop(p)^T dout     dk = ds^T q     dq = ds k
//
// (delta is the row sum of p * drop(dp), also with dropout.) Blocks of keys are outside, so dk and
// dv of a block are finished at once; dq of all queries waits in the workspace.

#if defined(SOMA_KERNELS_ATTENTION_BACKWARD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ATTENTION_BACKWARD_INL_HPP
#undef SOMA_KERNELS_ATTENTION_BACKWARD_INL_HPP
#else
#define SOMA_KERNELS_ATTENTION_BACKWARD_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/attention_panels-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Scaled scores become p, dropped where kDrop; dp becomes ds.
template <bool kDrop>
HWY_NOINLINE HWY_MAYBE_UNUSED static void differentiate_scores(
    float* scores, float* dp, std::size_t keys, const float* log_sum_exp, const float* delta,
    float scale, const DropoutArgs& dropout, const float* words) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const auto factor = hn::Set(d, scale), keep = hn::Set(d, kDrop ? dropout.keep_scale : 1.0f);
  const auto threshold = hn::Set(du, dropout.threshold);
  for (std::size_t at = 0; at < query_panel; at += float_lanes) {
    const auto shift = hn::Load(d, log_sum_exp + at);
    const auto minus_delta = hn::Neg(hn::Load(d, delta + at));
    for (std::size_t i = at; i < keys * query_panel; i += query_panel) {
      const auto p = exp_lanes(d, hn::Sub(hn::Load(d, scores + i), shift));
      auto gradient = hn::Load(d, dp + i);
      auto kept = p;
      if constexpr (kDrop) {
        const auto word = hn::BitCast(du, hn::Load(d, words + i));
        const auto dropped = hn::RebindMask(d, hn::Lt(word, threshold));
        gradient = hn::IfThenZeroElse(dropped, gradient);
        kept = hn::IfThenZeroElse(dropped, hn::Mul(p, keep));
      }
      hn::Store(kept, d, scores + i);
      hn::Store(hn::Mul(hn::Mul(p, fused(d, gradient, keep, minus_delta)), factor), d, dp + i);
    }
  }
}

// Rows of a panel, keys, as the left-hand side of a product along its first queries.
static inline void turn_panel(const float* panel, std::size_t keys, std::size_t queries,
                              const float* zeros, float* out) {
  for (std::size_t key = 0; key < keys; key += micro_rows) {
    const float* lines[micro_row_width];
    for (std::size_t line = 0; line < micro_row_width; ++line)
      lines[line] =
          line < micro_rows && key + line < keys ? panel + (key + line) * query_panel : zeros;
    pack_lines_panel<micro_row_width>(lines, queries, out);
    out += queries * micro_row_width;
  }
}

HWY_NOINLINE HWY_MAYBE_UNUSED static void add_row_products(const float* a, const float* b,
                                                           std::size_t count, LaneSums<1>& sums) {
  accumulate<1, 2>({a, b}, count, sums,
                   [](FloatVector* sum, FloatVector x, FloatVector y)
                       HWY_ATTR { sum[0] = fused(Floats(), x, y, sum[0]); });
}

namespace {  // internal linkage: units with other flags have their own

struct BackwardSpace {
  std::size_t panels, dq_rows, row_floats, stride;
  PackBuffer* pack;
  float *q, *dout;             // [panels] packed, queries as columns
  float *q_rows, *dout_rows;   // [panels] packed, queries along k
  float* dq;                   // [panels][dq_rows][query_panel]
  float *log_sum_exp, *delta;  // [panels][query_panel]
  float *k, *v, *k_across;     // a block of keys, packed as left-hand sides
  float *scores, *dp;          // a panel
  float* turned;               // a panel as a left-hand side
  float *dk, *dv;              // a block of keys
  float* rows;                 // of a finished panel
  WordPanel words;

  BackwardSpace(Carver& carver, std::size_t queries, std::size_t width)
      : panels((queries + query_panel - 1) / query_panel),
        dq_rows(turned_rows(width)),
        row_floats(packed_columns_floats(width, query_panel)),
        stride(whole_units(width, micro_columns) + line_floats),
        pack(reinterpret_cast<PackBuffer*>(carver.bytes(sizeof(PackBuffer)))),
        q(carver.floats(panels * width * query_panel)),
        dout(carver.floats(panels * width * query_panel)),
        q_rows(carver.floats(panels * row_floats)),
        dout_rows(carver.floats(panels * row_floats)),
        dq(carver.floats(panels * dq_rows * query_panel)),
        log_sum_exp(carver.floats(panels * query_panel)),
        delta(carver.floats(panels * query_panel)),
        k(carver.floats(packed_rows_floats(key_block, width))),
        v(carver.floats(packed_rows_floats(key_block, width))),
        k_across(carver.floats(packed_rows_floats(width, key_block))),
        scores(carver.floats(block_rows * query_panel)),
        dp(carver.floats(block_rows * query_panel)),
        turned(carver.floats(packed_rows_floats(key_block, query_panel))),
        dk(carver.floats(block_rows * stride)),
        dv(carver.floats(block_rows * stride)),
        rows(carver.floats(query_panel * whole_units(width, pack_group))),
        words(carver) {}

  static constexpr std::size_t block_rows = whole_units(key_block, micro_rows);
};

class AttentionBackward {
 public:
  explicit AttentionBackward(const AttentionArgs& args)
      : args_(args),
        carver_(args.workspace),
        space_(carver_, args.queries, args.width),
        dq_(args.dq),
        dk_(args.dk),
        dv_(args.dv) {
    new (space_.pack) PackBuffer;
  }

  void run() {
    pack_queries(args_.q, space_.q, space_.q_rows);
    pack_queries(args_.dout, space_.dout, space_.dout_rows);
    sum_rows();
    for (std::size_t key = 0; key < args_.keys; key += key_block) {
      const std::size_t keys = (std::min)(key_block, args_.keys - key);
      add_block(key, keys);
      write_rows(space_.dk, key, keys, dk_);
      write_rows(space_.dv, key, keys, dv_);
    }
    for (std::size_t panel = 0; panel < space_.panels; ++panel)
      write_turned(space_.dq + panel * space_.dq_rows * query_panel, args_.width,
                   panel * query_panel, queries_of(panel), space_.rows, dq_);
  }

 private:
  std::size_t queries_of(std::size_t panel) const {
    return (std::min)(query_panel, args_.queries - panel * query_panel);
  }

  void pack_queries(const MatrixOperand& operand, float* columns, float* rows) {
    const std::size_t width = args_.width;
    const PackSource as_lines(operand, args_.queries, operand.row_stride, operand.column_stride);
    const PackSource along(operand, width, operand.column_stride, operand.row_stride);
    for (std::size_t panel = 0; panel < space_.panels; ++panel) {
      const std::size_t first = panel * query_panel, count = queries_of(panel);
      pack_columns_whole(as_lines, first, count, 0, width, *space_.pack,
                         columns + panel * width * query_panel);
      pack_columns_whole(along, 0, width, first, count, *space_.pack,
                         rows + panel * space_.row_floats);
    }
  }

  // delta, and what a panel needs to know of queries that are not there.
  void sum_rows() {
    const RowReader dout(args_.dout), out(args_.forward_out);
    ChunkBuffer buffers[2];
    const std::size_t places = space_.panels * query_panel;
    std::fill_n(space_.delta, places, 0.0f);
    std::fill_n(space_.log_sum_exp, places, 0.0f);
    std::copy_n(args_.log_sum_exp, args_.queries, space_.log_sum_exp);
    for (std::size_t query = 0; query < args_.queries; ++query) {
      LaneSums<1> sums;
      for_each_chunk(args_.width, [&](std::size_t first, std::size_t count) {
        add_row_products(dout.read(query, first, count, buffers[0].values),
                         out.read(query, first, count, buffers[1].values), count, sums);
      });
      space_.delta[query] = sums.total();
    }
  }

  void add_block(std::size_t first, std::size_t keys) {
    const std::size_t width = args_.width;
    const PackSource k(args_.k, args_.keys, args_.k.row_stride, args_.k.column_stride);
    const PackSource v(args_.v, args_.keys, args_.v.row_stride, args_.v.column_stride);
    const PackSource k_across(args_.k, width, args_.k.column_stride, args_.k.row_stride);
    pack_rows_whole(k, first, keys, 0, width, *space_.pack, space_.k);
    pack_rows_whole(v, first, keys, 0, width, *space_.pack, space_.v);
    pack_rows_whole(k_across, 0, width, first, keys, *space_.pack, space_.k_across);
    for (std::size_t panel = 0; panel < space_.panels; ++panel) {
      make_gradients(panel, first, keys);
      const std::size_t at = panel * space_.row_floats, queries = queries_of(panel);
      turn_panel(space_.scores, keys, queries, space_.pack->no_values, space_.turned);
      multiply_whole(keys, width, queries, space_.turned, space_.dout_rows + at, space_.dv,
                     space_.stride, panel == 0);
      turn_panel(space_.dp, keys, queries, space_.pack->no_values, space_.turned);
      multiply_whole(keys, width, queries, space_.turned, space_.q_rows + at, space_.dk,
                     space_.stride, panel == 0);
      multiply_whole(width, query_panel, keys, space_.k_across, space_.dp,
                     space_.dq + panel * space_.dq_rows * query_panel, query_panel, first == 0);
    }
  }

  // p and ds of a panel, in place of scores and dp.
  void make_gradients(std::size_t panel, std::size_t first, std::size_t keys) {
    const std::size_t width = args_.width, at = panel * query_panel;
    const DropoutArgs& dropout = args_.dropout;
    multiply_whole(keys, query_panel, width, space_.k, space_.q + at * width, space_.scores,
                   query_panel, true);
    multiply_whole(keys, query_panel, width, space_.v, space_.dout + at * width, space_.dp,
                   query_panel, true);
    scale_panel(space_.scores, keys, args_.scale);
    const bool drops = dropout.threshold != 0;
    if (drops) space_.words.draw(dropout, at, first, keys);
    const auto differentiate = drops ? differentiate_scores<true> : differentiate_scores<false>;
    differentiate(space_.scores, space_.dp, keys, space_.log_sum_exp + at, space_.delta + at,
                  args_.scale, dropout, space_.words.words);
  }

  void write_rows(const float* values, std::size_t first, std::size_t rows, RowWriter& writer) {
    for (std::size_t row = 0; row < rows; ++row)
      for_each_chunk(args_.width, [&](std::size_t column, std::size_t count) {
        writer.write(first + row, column, values + row * space_.stride + column, count);
      });
  }

  const AttentionArgs& args_;
  Carver carver_;
  BackwardSpace space_;
  RowWriter dq_, dk_, dv_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
