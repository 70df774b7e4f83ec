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
#include <soma/kernels/attention/panels-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The factor of a query's ds: `scale`, and 0 if the query sees one key only. Its probability is 1,
// whatever the score, but dp and delta are sums of the same products in different orders: without
// this ds would be their rounding errors, of which Adam makes whole steps. NaN and infinity stay.
static inline float score_gradient_scale(const AttentionArgs& args, std::size_t query) {
  std::size_t seen = args.causal ? args.earlier + query + 1 : args.keys;
  if (args.mask != nullptr) {
    const std::uint8_t* const row = args.mask + query * args.keys;
    std::size_t found = 0;
    for (std::size_t key = 0; key < seen && found < 2; ++key) found += row[key] != 0;
    seen = found;
  }
  return seen == 1 ? 0 : args.scale;
}

// Scaled scores become p, dropped where kDrop; dp becomes ds. `scales` has score_gradient_scale().
template <bool kDrop>
HWY_NOINLINE HWY_MAYBE_UNUSED static void differentiate_scores(
    float* scores, float* dp, std::size_t keys, std::size_t columns, const float* log_sum_exp,
    const float* delta, const float* scales, const DropoutArgs& dropout,
    const std::uint32_t* words) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const auto keep = hn::Set(d, kDrop ? dropout.keep_scale : 1.0f);
  const auto threshold = hn::Set(du, dropout.threshold);
  for (std::size_t at = 0; at < columns; at += float_lanes) {
    const auto shift = hn::Load(d, log_sum_exp + at);
    const auto minus_delta = hn::Neg(hn::Load(d, delta + at)), factor = hn::Load(d, scales + at);
    for (std::size_t i = at; i < keys * micro_columns; i += micro_columns) {
      const auto p = exp_lanes(d, hn::Sub(hn::Load(d, scores + i), shift));
      auto gradient = hn::Load(d, dp + i);
      auto kept = p;
      if constexpr (kDrop) {
        const auto dropped = hn::RebindMask(d, hn::Lt(hn::LoadU(du, words + i), threshold));
        gradient = hn::IfThenZeroElse(dropped, gradient);
        kept = hn::IfThenZeroElse(dropped, hn::Mul(p, keep));
      }
      hn::Store(kept, d, scores + i);
      hn::Store(hn::Mul(hn::Mul(p, fused(d, gradient, keep, minus_delta)), factor), d, dp + i);
    }
  }
}

HWY_NOINLINE HWY_MAYBE_UNUSED static void add_row_products(const float* a, const float* b,
                                                           std::size_t count, LaneSums<1>& sums) {
  accumulate<1, 2>({a, b}, count, sums,
                   [](FloatVector* sum, FloatVector x, FloatVector y)
                       HWY_ATTR { sum[0] = fused(Floats(), x, y, sum[0]); });
}

namespace {  // internal linkage: units with other flags have their own

// Operands as those of AttentionForward.
template <class Operands>
class AttentionBackward {
 public:
  explicit AttentionBackward(const AttentionArgs& args)
      : args_(args),
        carver_(args.workspace),
        operands_(args, carver_),
        space_(args, carver_),
        dq_(args.dq),
        dk_(args.dk),
        dv_(args.dv) {}

  static std::size_t workspace_bytes(const AttentionArgs& args) {
    Carver carver(nullptr);
    Operands(args, carver);
    Space(args, carver);
    return carver.used();
  }

  void run() {
    const std::size_t panels = query_panels(args_.queries);
    for (std::size_t panel = 0; panel < panels; ++panel) operands_.take_queries(panel);
    sum_rows();
    if (sees_some(args_))
      for (std::size_t panel = 0; panel < panels; ++panel) operands_.clear_sums(panel);
    for (std::size_t key = 0; key < args_.keys; key += Operands::block) {
      const std::size_t keys = (std::min)(Operands::block, args_.keys - key);
      add_block(key, keys);
      operands_.write_keys(key, keys, dk_, dv_);
    }
    for (std::size_t panel = 0; panel < panels; ++panel) operands_.write_queries(panel, dq_);
  }

 private:
  struct Space {
    float *log_sum_exp, *delta, *scales;  // [query_panel] each
    float *scores, *dp;                   // a panel
    float* words;

    Space(const AttentionArgs& args, Carver& carver)
        : log_sum_exp(carver.floats(query_panels(args.queries) * query_panel)),
          delta(carver.floats(query_panels(args.queries) * query_panel)),
          scales(carver.floats(query_panels(args.queries) * query_panel)),
          scores(carver.floats(Operands::score_rows * query_panel)),
          dp(carver.floats(Operands::score_rows * query_panel)),
          words(carver.floats(word_rows(Operands::block) * query_panel)) {}
  };

  // delta, and what a panel needs to know of queries that are not there.
  void sum_rows() {
    const MatrixReader dout(args_.dout), out(args_.forward_out);
    ChunkBuffer buffers[2];
    const std::size_t places = query_panels(args_.queries) * query_panel;
    std::fill_n(space_.delta, places, 0.0f);
    std::fill_n(space_.log_sum_exp, places, 0.0f);
    std::fill_n(space_.scales, places, 0.0f);
    std::copy_n(args_.log_sum_exp, args_.queries, space_.log_sum_exp);
    for (std::size_t query = 0; query < args_.queries; ++query) {
      space_.scales[query] = score_gradient_scale(args_, query);
      if (operands_.sum_products(query, space_.delta[query])) continue;
      LaneSums<1> sums;
      for_each_chunk(args_.width, [&](std::size_t first, std::size_t count) {
        add_row_products(dout.read(query, first, count, buffers[0].values),
                         out.read(query, first, count, buffers[1].values), count, sums);
      });
      space_.delta[query] = sums.total();
    }
  }

  void add_block(std::size_t first, std::size_t keys) {
    operands_.take_keys(first, keys);
    if (sees_some(args_)) operands_.clear_key_sums();
    for (std::size_t panel = 0; panel < query_panels(args_.queries); ++panel) {
      if (sees_some(args_)) {
        add_seen(panel, first, keys_seen(args_, panel, first, keys));
        continue;
      }
      operands_.make_scores(panel, keys, space_.scores, space_.dp);
      differentiate(panel, first, keys);
      operands_.add_gradients(panel, keys, space_.scores, space_.dp,
                              {.queries = first == 0, .keys = panel == 0});
    }
  }
  // Adds the keys that the panel may see in the block that begins at `first`, to sums that began as
  // zero.
  void add_seen(std::size_t panel, std::size_t first, std::size_t keys) {
    if (keys == 0) return;
    operands_.make_scores(panel, keys, space_.scores, space_.dp);
    differentiate(panel, first, keys);
    const std::size_t rows = Operands::score_rows_read(keys);
    clear_rows(space_.scores, keys, rows);
    clear_rows(space_.dp, keys, rows);
    operands_.add_gradients(panel, keys, space_.scores, space_.dp, {});
  }

  // p and ds of a panel, in place of scores and dp.
  void differentiate(std::size_t panel, std::size_t first, std::size_t keys) {
    const std::size_t at = panel * query_panel, queries = queries_of(args_, panel),
                      columns = columns_in_use(queries);
    const DropoutArgs& dropout = args_.dropout;
    scale_panel(space_.scores, keys, columns, args_.scale);
    if (sees_some(args_)) hide_scores(args_, panel, first, keys, space_.scores);
    const bool drops = dropout.threshold != 0;
    const std::uint32_t* words =
        drops ? draw_panel(dropout, at, queries, first, keys, space_.words) : nullptr;
    const auto steps = drops ? differentiate_scores<true> : differentiate_scores<false>;
    steps(space_.scores, space_.dp, keys, columns, space_.log_sum_exp + at, space_.delta + at,
          space_.scales + at, dropout, words);
  }

  const AttentionArgs& args_;
  Carver carver_;
  Operands operands_;
  Space space_;
  [[no_unique_address]] typename Operands::Registers registers_;
  MatrixWriter dq_, dk_, dv_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
