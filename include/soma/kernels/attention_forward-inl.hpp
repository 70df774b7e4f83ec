// Forward attention: keys pass in blocks; every panel of queries keeps its largest score, its sum
// of exponentials and its sum of values so far (the online softmax of arXiv 2205.14135).

#if defined(SOMA_KERNELS_ATTENTION_FORWARD_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ATTENTION_FORWARD_INL_HPP
#undef SOMA_KERNELS_ATTENTION_FORWARD_INL_HPP
#else
#define SOMA_KERNELS_ATTENTION_FORWARD_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/attention_panels-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float minus_infinity = -std::numeric_limits<float>::infinity();

// What is subtracted from scores: their largest so far. While that is -infinity, zero, so that keys
// without weight stay without; a row that ends so divides zero by zero.
template <class V>
HWY_INLINE V score_shift(V largest) {
  const Floats d;
  return hn::IfThenZeroElse(hn::Eq(largest, hn::Set(d, minus_infinity)), largest);
}

// Scores times `scale`, rounded; `largest` includes them; `correction` is what sums so far are to
// be multiplied by. A NaN may or may not show in `largest`, but makes the sum NaN.
HWY_NOINLINE HWY_MAYBE_UNUSED static void scale_scores(float* scores, std::size_t keys, float scale,
                                                       float* largest, float* correction) {
  const Floats d;
  const auto factor = hn::Set(d, scale);
  for (std::size_t at = 0; at < query_panel; at += float_lanes) {
    const auto before = hn::Load(d, largest + at);
    auto most = before;
    for (std::size_t key = 0; key < keys; ++key) {
      float* x = scores + key * query_panel + at;
      const auto scaled = hn::Mul(hn::Load(d, x), factor);
      hn::Store(scaled, d, x);
      most = hn::Max(most, scaled);
    }
    hn::Store(most, d, largest + at);
    hn::Store(exp_lanes(d, hn::Sub(before, score_shift(most))), d, correction + at);
  }
}

// Scores become exp(score - largest); sums = sums * correction + their sum, which is taken in 16
// logical lanes over the block's keys.
HWY_NOINLINE HWY_MAYBE_UNUSED static void exponentiate_scores(float* scores, std::size_t keys,
                                                              const float* largest,
                                                              const float* correction,
                                                              float* sums) {
  const Floats d;
  alignas(64) float lanes[sum_lanes][float_lanes];
  for (std::size_t at = 0; at < query_panel; at += float_lanes) {
    const auto shift = score_shift(hn::Load(d, largest + at));
    for (std::size_t lane = 0; lane < sum_lanes; ++lane) {
      auto sum = hn::Zero(d);
      for (std::size_t key = lane; key < keys; key += sum_lanes) {
        float* x = scores + key * query_panel + at;
        const auto e = exp_lanes(d, hn::Sub(hn::Load(d, x), shift));
        hn::Store(e, d, x);
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
HWY_NOINLINE HWY_MAYBE_UNUSED static void finish_sums(const float* largest, const float* sums,
                                                      float* inverse, float* log_sum_exp) {
  const Floats d;
  for (std::size_t at = 0; at < query_panel; at += float_lanes) {
    const auto sum = hn::Load(d, sums + at);
    hn::Store(hn::Div(hn::Set(d, 1.0f), sum), d, inverse + at);
    hn::Store(hn::Add(hn::Load(d, largest + at), log_lanes(d, sum)), d, log_sum_exp + at);
  }
}

namespace {  // internal linkage: units with other flags have their own

struct ForwardSpace {
  std::size_t panels, out_rows;
  PackBuffer* pack;
  float* q;                            // [panels] packed
  float* out;                          // [panels][out_rows][query_panel]
  float *largest, *sums, *correction;  // [panels][query_panel]
  float *k, *v;                        // a block of keys, packed as left-hand sides
  float* scores;                       // a panel
  float* rows;                         // of a finished panel
  WordPanel words;

  ForwardSpace(Carver& carver, std::size_t queries, std::size_t width)
      : panels((queries + query_panel - 1) / query_panel),
        out_rows(turned_rows(width)),
        pack(reinterpret_cast<PackBuffer*>(carver.bytes(sizeof(PackBuffer)))),
        q(carver.floats(panels * width * query_panel)),
        out(carver.floats(panels * out_rows * query_panel)),
        largest(carver.floats(panels * query_panel)),
        sums(carver.floats(panels * query_panel)),
        correction(carver.floats(query_panel)),
        k(carver.floats(packed_rows_floats(key_block, width))),
        v(carver.floats(packed_rows_floats(width, key_block))),
        scores(carver.floats(whole_units(key_block, micro_rows) * query_panel)),
        rows(carver.floats(query_panel * whole_units(width, pack_group))),
        words(carver) {}
};

class AttentionForward {
 public:
  explicit AttentionForward(const AttentionArgs& args)
      : args_(args), carver_(args.workspace), space_(carver_, args.queries, args.width) {
    new (space_.pack) PackBuffer;
  }

  void run() {
    const PackSource q(args_.q, args_.queries, args_.q.row_stride, args_.q.column_stride);
    for (std::size_t panel = 0; panel < space_.panels; ++panel)
      pack_columns_whole(q, panel * query_panel, queries_of(panel), 0, args_.width, *space_.pack,
                         space_.q + panel * args_.width * query_panel);
    std::fill_n(space_.largest, space_.panels * query_panel, minus_infinity);
    std::fill_n(space_.sums, space_.panels * query_panel, 0.0f);
    for (std::size_t key = 0; key < args_.keys; key += key_block) add_block(key);
    finish();
  }

 private:
  std::size_t queries_of(std::size_t panel) const {
    return (std::min)(query_panel, args_.queries - panel * query_panel);
  }

  void add_block(std::size_t first) {
    const std::size_t keys = (std::min)(key_block, args_.keys - first), width = args_.width;
    const PackSource k(args_.k, args_.keys, args_.k.row_stride, args_.k.column_stride);
    const PackSource v(args_.v, width, args_.v.column_stride, args_.v.row_stride);
    pack_rows_whole(k, first, keys, 0, width, *space_.pack, space_.k);
    pack_rows_whole(v, 0, width, first, keys, *space_.pack, space_.v);
    for (std::size_t panel = 0; panel < space_.panels; ++panel) {
      float *largest = space_.largest + panel * query_panel,
            *out = space_.out + panel * space_.out_rows * query_panel;
      multiply_whole(keys, query_panel, width, space_.k, space_.q + panel * width * query_panel,
                     space_.scores, query_panel, true);
      scale_scores(space_.scores, keys, args_.scale, largest, space_.correction);
      exponentiate_scores(space_.scores, keys, largest, space_.correction,
                          space_.sums + panel * query_panel);
      if (args_.dropout.threshold != 0) {
        space_.words.draw(args_.dropout, panel * query_panel, first, keys);
        drop_words(reinterpret_cast<const std::uint32_t*>(space_.words.words), keys * query_panel,
                   args_.dropout, space_.scores);
      }
      if (first != 0) scale_columns(out, width, space_.correction);
      multiply_whole(width, query_panel, keys, space_.v, space_.scores, out, query_panel,
                     first == 0);
    }
  }

  void finish() {
    RowWriter writer(args_.out);
    alignas(64) float log_sum_exp[query_panel];
    for (std::size_t panel = 0; panel < space_.panels; ++panel) {
      const std::size_t first = panel * query_panel, queries = queries_of(panel);
      float* out = space_.out + panel * space_.out_rows * query_panel;
      finish_sums(space_.largest + first, space_.sums + first, space_.correction, log_sum_exp);
      scale_columns(out, args_.width, space_.correction);
      write_turned(out, args_.width, first, queries, space_.rows, writer);
      if (args_.log_sum_exp != nullptr)
        std::memcpy(args_.log_sum_exp + first, log_sum_exp, queries * sizeof(float));
    }
  }

  const AttentionArgs& args_;
  Carver carver_;
  ForwardSpace space_;
};

}  // namespace

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
