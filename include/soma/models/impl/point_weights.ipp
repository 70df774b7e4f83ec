#pragma once
// The functions of point_weights.hpp. Sums of products are added in double, where the product of
// two floats is exact, so that no compiler changes their bits.

#include <soma/models/point_weights.hpp>

#include <soma/base/error.hpp>
#include <soma/data/point_source.hpp>
#include <soma/numeric/fused.hpp>
#include <soma/numeric/portable_math.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

namespace detail {

SOMA_INLINE float idf_of(std::uint64_t points, std::uint32_t with_feature) {
  return static_cast<float>(
      portable_log((1 + static_cast<double>(points)) / (1 + static_cast<double>(with_feature))) +
      1);
}

}  // namespace detail

SOMA_INLINE PointWeights::PointWeights(const data::SparsePoints& points,
                                       const PointWeightOptions& options) {
  if (!(options.strength >= 0 && options.strength <= 2))
    fail(error_id::operator_value, "PointWeights", "strength", std::to_string(options.strength),
         "0 to 2");
  if (options.raw) return;
  count_idf(points);
  if (options.strength > 0) tell(points, options.strength);
}

SOMA_INLINE PointWeights::PointWeights(std::uint64_t points, std::vector<float> idf,
                                       std::vector<float> g)
    : points_(points), unseen_(detail::idf_of(points, 1)), idf_(std::move(idf)), g_(std::move(g)) {}

SOMA_INLINE void PointWeights::count_idf(const data::SparsePoints& points) {
  points_ = points.count();
  unseen_ = detail::idf_of(points_, 1);
  std::vector<std::uint32_t> with_feature(points.features, 0);
  for (const std::int32_t id : points.ids) ++with_feature[static_cast<std::size_t>(id)];
  idf_.assign(points.features, 0.0f);
  for (std::size_t id = 0; id < points.features; ++id)
    if (with_feature[id] != 0) idf_[id] = detail::idf_of(points_, with_feature[id]);
}

SOMA_INLINE void PointWeights::tell(const data::SparsePoints& points, double strength) {
  constexpr double a = 0.3;
  // The points of each feature.
  std::vector<std::size_t> begins(points.features + 1, 0);
  for (const std::int32_t id : points.ids) ++begins[static_cast<std::size_t>(id) + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  std::vector<std::uint32_t> of_feature(points.ids.size());
  std::vector<std::size_t> next(begins.begin(), begins.end() - 1);
  std::vector<double> all(points.classes, 0.0);  // K
  for (std::size_t i = 0; i < points.count(); ++i) {
    for (std::size_t k = points.offsets[i]; k < points.offsets[i + 1]; ++k)
      of_feature[next[static_cast<std::size_t>(points.ids[k])]++] = static_cast<std::uint32_t>(i);
    for (const std::int32_t label : points.labels.list(i))
      all[static_cast<std::size_t>(label)] +=
          static_cast<double>(points.offsets[i + 1] - points.offsets[i]);
  }
  const auto n = static_cast<double>(points.ids.size());
  const auto classes = static_cast<double>(points.classes);
  // ln(K / (N - K)) of each class, and the sums over all classes that most features need.
  std::vector<double> base(points.classes);
  double base_sum = 0, base_squares = 0;
  for (std::size_t c = 0; c < points.classes; ++c) {
    // A class in all points, or in none, is told by no feature; the constant keeps it finite.
    base[c] = portable_log((all[c] + a) / (n - all[c] + a));
    base_sum += base[c];
    base_squares = fused_multiply_add(base[c], base[c], base_squares);
  }
  g_.assign(points.features, 0.0f);
  std::vector<std::uint32_t> counts(points.classes, 0);
  std::vector<std::int32_t> met;
  for (std::size_t id = 0; id < points.features; ++id) {
    const std::size_t first = begins[id], end = begins[id + 1];
    if (first == end) continue;
    met.clear();
    for (std::size_t k = first; k < end; ++k)
      for (const std::int32_t label : points.labels.list(of_feature[k]))
        if (counts[static_cast<std::size_t>(label)]++ == 0) met.push_back(label);
    const auto m = static_cast<double>(end - first);
    const double share = 1 / fused_multiply_add(a, classes, m);
    // Classes without the feature share p and the first logarithm: the sum of (none - base)^2 over
    // them is that over all classes, without the classes that have it.
    const double none = portable_log(a / fused_multiply_add(a, classes - 1, m));
    double sum = 0;
    double of_none =
        fused_multiply_add(none, fused_multiply_add(classes, none, -2 * base_sum), base_squares);
    for (const std::int32_t label : met) {
      const auto c = static_cast<std::size_t>(label);
      const auto k = static_cast<double>(counts[c]);
      const double without = none - base[c];
      of_none = fused_multiply_add(-without, without, of_none);
      const double r = portable_log((k + a) / fused_multiply_add(a, classes - 1, m - k)) - base[c];
      sum = fused_multiply_add((k + a) * share, r * r, sum);
      counts[c] = 0;
    }
    sum = fused_multiply_add(a * share, of_none > 0 ? of_none : 0, sum);
    g_[id] = static_cast<float>(portable_pow(sum, strength / 2));
  }
}

SOMA_INLINE void PointWeights::weigh(std::span<const std::int32_t> ids,
                                     std::span<const float> values,
                                     std::vector<float>& weighted) const {
  weighted.resize(ids.size());
  if (idf_.empty()) {
    for (std::size_t k = 0; k < ids.size(); ++k) weighted[k] = values.empty() ? 1.0f : values[k];
    return;
  }
  double known = 0, unknown = 0, told = 0;
  for (std::size_t k = 0; k < ids.size(); ++k) {
    const auto id = static_cast<std::size_t>(ids[k]);
    const float value = values.empty() ? 1.0f : values[k];
    const bool seen = idf_[id] != 0;
    const float by_idf = value * (seen ? idf_[id] : unseen_);
    const double square = static_cast<double>(by_idf) * static_cast<double>(by_idf);
    (seen ? known : unknown) += square;
    weighted[k] = seen ? (g_.empty() ? by_idf : by_idf * g_[id]) : 0.0f;
    told += static_cast<double>(weighted[k]) * static_cast<double>(weighted[k]);
  }
  if (!(told > 0)) return;
  const auto scale = static_cast<float>(std::sqrt(known / (known + unknown)) / std::sqrt(told));
  for (float& value : weighted) value *= scale;
}

SOMA_INLINE data::SparsePoints PointWeights::weigh(const data::SparsePoints& points) const {
  data::SparsePoints result = points;
  result.values.clear();
  result.values.reserve(points.ids.size());
  std::vector<float> weighted;
  for (std::size_t i = 0; i < points.count(); ++i) {
    const std::size_t first = points.offsets[i], count = points.offsets[i + 1] - first;
    weigh(std::span(points.ids).subspan(first, count),
          points.values.empty() ? std::span<const float>()
                                : std::span(points.values).subspan(first, count),
          weighted);
    result.values.insert(result.values.end(), weighted.begin(), weighted.end());
  }
  return result;
}

}  // namespace SOMA_NAMESPACE::models
