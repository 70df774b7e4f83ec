// Forward attention: keys pass in blocks; every panel of queries keeps its largest score, its sum
// of exponentials and its sum of values so far (the online softmax of arXiv 2205.14135).

#if defined(SOMA_KERNELS_ATTENTION_FORWARD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ATTENTION_FORWARD_INL_HPP
#undef SOMA_KERNELS_ATTENTION_FORWARD_INL_HPP
#else
#define SOMA_KERNELS_ATTENTION_FORWARD_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/attention/panels-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// The number that is subtracted from scores: the largest score so far. While that is -infinity, the
// shift is zero, so that keys without weight stay without weight; a row that ends in this state
// divides zero by zero.
template <class V>
HWY_INLINE V score_shift(V largest) {
  const Floats d;
  return hn::IfThenZeroElse(hn::Eq(largest, hn::Set(d, minus_infinity)), largest);
}

// Scores times `scale`, rounded; `largest` includes them; `correction` is what sums so far are to
// be multiplied by. A NaN may or may not show in `largest`, but makes the sum NaN.
HWY_NOINLINE HWY_MAYBE_UNUSED static void scale_scores(float* scores, std::size_t keys,
                                                       std::size_t columns, float scale,
                                                       float* largest, float* correction) {
  const Floats d;
  const auto factor = hn::Set(d, scale);
  for (std::size_t at = 0; at < columns; at += float_lanes) {
    const auto before = hn::Load(d, largest + at);
    auto most = before;
    for (std::size_t key = 0; key < keys; ++key) {
      float* x = scores + key * micro_columns + at;
      const auto scaled = hn::Mul(hn::Load(d, x), factor);
      hn::Store(scaled, d, x);
      most = hn::Max(most, scaled);
    }
    hn::Store(most, d, largest + at);
    hn::Store(exp_lanes(d, hn::Sub(before, score_shift(most))), d, correction + at);
  }
}

// Scores become exp(score - largest), dropped where kDrop; sums = sums * correction + the sum of
// the exponentials, which is taken in 16 logical lanes over the block's keys.
template <bool kDrop>
HWY_NOINLINE HWY_MAYBE_UNUSED static void exponentiate_scores(
    float* scores, std::size_t keys, std::size_t columns, const float* largest,
    const float* correction, float* sums, const DropoutArgs& dropout, const std::uint32_t* words) {
  const Floats d;
  const hn::RebindToUnsigned<Floats> du;
  const auto keep = hn::Set(d, dropout.keep_scale);
  const auto threshold = hn::Set(du, dropout.threshold);
  alignas(64) float lanes[sum_lanes][float_lanes];
  for (std::size_t at = 0; at < columns; at += float_lanes) {
    const auto shift = score_shift(hn::Load(d, largest + at));
    for (std::size_t lane = 0; lane < sum_lanes; ++lane) {
      auto sum = hn::Zero(d);
      for (std::size_t key = lane; key < keys; key += sum_lanes) {
        const std::size_t i = key * micro_columns + at;
        const auto e = exp_lanes(d, hn::Sub(hn::Load(d, scores + i), shift));
        auto kept = e;
        if constexpr (kDrop) {
          const auto dropped = hn::Lt(hn::Load(du, words + i), threshold);
          kept = hn::IfThenZeroElse(hn::RebindMask(d, dropped), hn::Mul(e, keep));
        }
        hn::Store(kept, d, scores + i);
        sum = hn::Add(sum, e);
      }
      hn::Store(sum, d, lanes[lane]);
    }
    for (std::size_t half = sum_lanes / 2; half != 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i)
        hn::Store(hn::Add(hn::Load(d, lanes[i]), hn::Load(d, lanes[i + half])), d, lanes[i]);
    hn::Store(fused(d, hn::Load(d, sums + at), hn::Load(d, correction + at), hn::Load(d, lanes[0])),
              d, sums + at);
  }
}

// inverse = 1 / sums, log_sum_exp = largest + log(sums)
HWY_NOINLINE HWY_MAYBE_UNUSED static void finish_sums(std::size_t columns, const float* largest,
                                                      const float* sums, float* inverse,
                                                      float* log_sum_exp) {
  const Floats d;
  for (std::size_t at = 0; at < columns; at += float_lanes) {
    const auto sum = hn::Load(d, sums + at);
    hn::Store(hn::Div(hn::Set(d, 1.0f), sum), d, inverse + at);
    hn::Store(hn::Add(hn::Load(d, largest + at), log_lanes(d, sum)), d, log_sum_exp + at);
  }
}

namespace {  // internal linkage: units with other flags have their own

// Operands are what products read, and sums, of a head (attention/vectors-inl.hpp,
// attention/tiles-inl.hpp).
template <class Operands>
class AttentionForward {
 public:
  explicit AttentionForward(const AttentionArgs& args)
      : args_(args), carver_(args.workspace), operands_(args, carver_), space_(args, carver_) {}

  static std::size_t workspace_bytes(const AttentionArgs& args) {
    Carver carver(nullptr);
    Operands(args, carver);
    Space(args, carver);
    return carver.used();
  }

  void run() {
    const std::size_t panels = query_panels(args_.queries);
    for (std::size_t panel = 0; panel < panels; ++panel) operands_.take_queries(panel);
    std::fill_n(space_.largest, panels * query_panel, minus_infinity);
    std::fill_n(space_.sums, panels * query_panel, 0.0f);
    std::fill_n(space_.correction, query_panel, 0.0f);  // includes rows beyond the last query
    if (sees_some(args_))
      for (std::size_t panel = 0; panel < panels; ++panel) operands_.clear_sums(panel);
    for (std::size_t key = 0; key < args_.keys; key += Operands::block)
      add_block(key, (std::min)(Operands::block, args_.keys - key));
    MatrixWriter writer(args_.out);
    for (std::size_t panel = 0; panel < panels; ++panel) finish(panel, writer);
  }

 private:
  struct Space {
    float *largest, *sums, *correction;  // [query_panel], the first two each
    float* scores;                       // a panel
    float* words;

    Space(const AttentionArgs& args, Carver& carver)
        : largest(carver.floats(query_panels(args.queries) * query_panel)),
          sums(carver.floats(query_panels(args.queries) * query_panel)),
          correction(carver.floats(query_panel)),
          scores(carver.floats(Operands::score_rows * query_panel)),
          words(carver.floats(word_rows(Operands::block) * query_panel)) {}
  };

  void add_block(std::size_t first, std::size_t keys) {
    operands_.take_keys(first, keys);
    for (std::size_t panel = 0; panel < query_panels(args_.queries); ++panel) {
      if (sees_some(args_)) {
        add_seen(panel, first, keys_seen(args_, panel, first, keys));
        continue;
      }
      operands_.make_scores(panel, keys, space_.scores);
      weigh_scores(panel, first, keys, args_.scale);
      operands_.add_values(panel, keys, space_.scores, first != 0 ? space_.correction : nullptr);
    }
  }
  // Adds the keys that the panel may see in the block that begins at `first`, to sums that began as
  // zero.
  void add_seen(std::size_t panel, std::size_t first, std::size_t keys) {
    if (keys == 0) return;
    operands_.make_scores(panel, keys, space_.scores);
    scale_panel(space_.scores, keys, columns_in_use(queries_of(args_, panel)), args_.scale);
    hide_scores(args_, panel, first, keys, space_.scores);
    weigh_scores(panel, first, keys, 1);
    clear_rows(space_.scores, keys, Operands::score_rows_read(keys));
    operands_.add_values(panel, keys, space_.scores, space_.correction);
  }

  // Scores of a block of keys, times `scale`, become weights of its values.
  void weigh_scores(std::size_t panel, std::size_t first, std::size_t keys, float scale) {
    const std::size_t at = panel * query_panel, queries = queries_of(args_, panel),
                      columns = columns_in_use(queries);
    const DropoutArgs& dropout = args_.dropout;
    scale_scores(space_.scores, keys, columns, scale, space_.largest + at, space_.correction);
    const bool drops = dropout.threshold != 0;
    const std::uint32_t* words =
        drops ? draw_panel(dropout, at, queries, first, keys, space_.words) : nullptr;
    const auto exponentiate = drops ? exponentiate_scores<true> : exponentiate_scores<false>;
    exponentiate(space_.scores, keys, columns, space_.largest + at, space_.correction,
                 space_.sums + at, dropout, words);
  }

  void finish(std::size_t panel, MatrixWriter& writer) {
    const std::size_t first = panel * query_panel, queries = queries_of(args_, panel);
    alignas(64) float log_sum_exp[query_panel];
    finish_sums(columns_in_use(queries), space_.largest + first, space_.sums + first,
                space_.correction, log_sum_exp);
    operands_.write(panel, space_.correction, writer);
    if (args_.log_sum_exp != nullptr)
      std::memcpy(args_.log_sum_exp + first, log_sum_exp, queries * sizeof(float));
  }

  const AttentionArgs& args_;
  Carver carver_;
  Operands operands_;
  Space space_;
  [[no_unique_address]] typename Operands::Registers registers_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
