// Dual coordinate ascent for a panel of classes. A feature's weights for the classes of a panel are
// adjacent, 64 bytes at most, so that a feature costs one line of the cache. Each lane is a class
// by itself: vectors of any width compute the same.

#if defined(SOMA_KERNELS_SPARSE_PANEL_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_SPARSE_PANEL_INL_HPP
#undef SOMA_KERNELS_SPARSE_PANEL_INL_HPP
#else
#define SOMA_KERNELS_SPARSE_PANEL_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/sparse/args.hpp>
#include <soma/simd/fused-inl.hpp>
#include <soma/simd/memory-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Four chains hide the latency of the multiply-adds.
inline constexpr std::size_t panel_chains = 4;
// A row's weights are scattered in memory: they are prefetched this many rows ahead.
inline constexpr std::size_t panel_fetch_distance = 1;

// One row's part of a problem.
struct PanelRow {
  const std::int32_t* features;
  const float* values;
  std::size_t count;
};

template <std::size_t kWidth>
struct PanelVectors {
  using D = hn::CappedTag<float, kWidth>;
  using V = hn::Vec<D>;
  static constexpr std::size_t lanes = hn::MaxLanes(D()), vectors = kWidth / lanes;
};

// scores[v] = the weights of the row's features times its values, without the bias.
template <std::size_t kWidth, class P = PanelVectors<kWidth>>
HWY_INLINE void panel_products(const PanelRow& row, const float* weights,
                               typename P::V (&scores)[P::vectors]) {
  const typename P::D d;
  typename P::V sums[panel_chains][P::vectors];
  for (std::size_t k = 0; k < panel_chains; ++k)
    for (std::size_t v = 0; v < P::vectors; ++v) sums[k][v] = hn::Zero(d);
  const auto add = [&](std::size_t i, std::size_t k) HWY_ATTR {
    const float* from = weights + static_cast<std::size_t>(row.features[i]) * kWidth;
    const auto x = hn::Set(d, row.values[i]);
    for (std::size_t v = 0; v < P::vectors; ++v)
      sums[k][v] = fused(d, x, hn::LoadU(d, from + v * P::lanes), sums[k][v]);
  };
  std::size_t i = 0;
  for (; i + panel_chains <= row.count; i += panel_chains) {
    add(i, 0);
    add(i + 1, 1);
    add(i + 2, 2);
    add(i + 3, 3);
  }
  if (i < row.count) add(i, 0);
  if (i + 1 < row.count) add(i + 1, 1);
  if (i + 2 < row.count) add(i + 2, 2);
  for (std::size_t v = 0; v < P::vectors; ++v)
    scores[v] = hn::Add(hn::Add(sums[0][v], sums[1][v]), hn::Add(sums[2][v], sums[3][v]));
}

// The sign of each column for a row: 1, -1, or 0 for columns that are no class.
template <std::size_t kWidth>
HWY_INLINE void panel_signs(const PanelPassArgs& args, std::size_t row, float* signs) {
  for (std::size_t c = 0; c < kWidth; ++c) signs[c] = c < args.classes ? -1.0f : 0.0f;
  const std::int32_t* from = args.labels + args.label_begins[row];
  const std::int32_t* const end = args.labels + args.label_begins[row + 1];
  const auto last = args.first_class + static_cast<std::int32_t>(args.classes);
  if (end - from > 16) from = std::lower_bound(from, end, args.first_class);
  for (; from != end && *from < last; ++from)
    if (*from >= args.first_class) signs[*from - args.first_class] = 1.0f;
}

template <std::size_t kWidth, class P = PanelVectors<kWidth>>
HWY_INLINE void panel_step(const PanelPassArgs& args, std::size_t index, const PanelRow& row) {
  const typename P::D d;
  const auto zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  alignas(64) float signs[kWidth];
  panel_signs<kWidth>(args, index, signs);
  typename P::V scores[P::vectors], changes[P::vectors];
  panel_products<kWidth>(row, args.weights, scores);
  const float bias_value = args.bias_values == nullptr ? 1.0f : args.bias_values[index];
  const auto b = hn::Set(d, bias_value), inverse = hn::Set(d, args.inverses[index]);
  const auto diagonal = hn::Set(d, args.diagonals[index]);
  float* duals = args.duals + index * kWidth;
  bool any = false;
  for (std::size_t v = 0; v < P::vectors; ++v) {
    float* const bias = args.bias + v * P::lanes;
    const auto y = hn::LoadU(d, signs + v * P::lanes);
    const auto a = hn::LoadU(d, duals + v * P::lanes);
    const auto s = fused(d, hn::LoadU(d, bias), b, scores[v]);
    const auto slope = fused(d, a, diagonal, hn::Sub(hn::Mul(y, s), one));
    // Times y y, so that columns that are no class keep zero.
    const auto next = hn::Mul(hn::Max(zero, fused(d, hn::Neg(slope), inverse, a)), hn::Mul(y, y));
    changes[v] = hn::Mul(hn::Sub(next, a), y);
    if (hn::AllTrue(d, hn::Eq(changes[v], zero))) continue;
    any = true;
    hn::StoreU(next, d, duals + v * P::lanes);
    hn::StoreU(fused(d, changes[v], b, hn::LoadU(d, bias)), d, bias);
  }
  if (!any) return;
  for (std::size_t i = 0; i < row.count; ++i) {
    float* const to = args.weights + static_cast<std::size_t>(row.features[i]) * kWidth;
    const auto x = hn::Set(d, row.values[i]);
    for (std::size_t v = 0; v < P::vectors; ++v)
      hn::StoreU(fused(d, x, changes[v], hn::LoadU(d, to + v * P::lanes)), d, to + v * P::lanes);
  }
}

template <std::size_t kWidth>
HWY_INLINE void panel_pass(const PanelPassArgs& args) {
  const auto row_of = [&](std::size_t index) {
    const std::int64_t begin = args.begins[index], end = args.begins[index + 1];
    return PanelRow{args.features + begin, args.values + begin,
                    static_cast<std::size_t>(end - begin)};
  };
  for (std::size_t i = 0; i < args.count; ++i) {
    if (i + panel_fetch_distance < args.count) {
      const std::size_t ahead = args.order[i + panel_fetch_distance];
      const PanelRow row = row_of(ahead);
      for (std::size_t k = 0; k < row.count; ++k)
        hwy::Prefetch(args.weights + static_cast<std::size_t>(row.features[k]) * kWidth);
      hwy::Prefetch(args.duals + ahead * kWidth);
    }
    panel_step<kWidth>(args, args.order[i], row_of(args.order[i]));
  }
}

static inline void panel_pass_entry(const PanelPassArgs& args) noexcept {
  if (args.width == 1)
    panel_pass<1>(args);
  else if (args.width == 4)
    panel_pass<4>(args);
  else
    panel_pass<16>(args);
}

template <std::size_t kWidth, class P = PanelVectors<kWidth>>
HWY_INLINE void panel_scores(const PanelScoresArgs& args) {
  const typename P::D d;
  const PanelRow row{args.features, args.values, args.count};
  const auto b = hn::Set(d, args.bias_value);
  for (std::size_t panel = 0; panel < args.panels; ++panel) {
    typename P::V scores[P::vectors];
    panel_products<kWidth>(row, args.weights + panel * args.panel_stride, scores);
    for (std::size_t v = 0; v < P::vectors; ++v) {
      const std::size_t at = panel * kWidth + v * P::lanes;
      hn::StoreU(fused(d, hn::LoadU(d, args.bias + at), b, scores[v]), d, args.y + at);
    }
  }
}

static inline void panel_scores_entry(const PanelScoresArgs& args) noexcept {
  if (args.width == 1)
    panel_scores<1>(args);
  else if (args.width == 4)
    panel_scores<4>(args);
  else
    panel_scores<16>(args);
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
