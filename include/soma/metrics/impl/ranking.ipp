#pragma once
// The functions of ranking.hpp.

#include <soma/metrics/ranking.hpp>

#include <soma/base/error.hpp>
#include <soma/metrics/metrics.hpp>
#include <soma/numeric/portable_math.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::metrics {

SOMA_INLINE std::vector<float> inverse_propensities(std::span<const std::uint32_t> points_of_class,
                                                    std::uint64_t points,
                                                    const PropensityOptions& options) {
  const auto check = [](std::string_view name, double value, double most) {
    if (!(value >= 0 && value <= most))
      fail(error_id::operator_value, "inverse_propensities", name, std::to_string(value),
           "0 to " + std::to_string(static_cast<int>(most)));
  };
  check("a", options.a, 1);
  check("b", options.b, 1000);
  const double all = static_cast<double>((std::max)(points, std::uint64_t{1}));
  const double c = (std::max)(0.0, portable_log(all) - 1) * portable_pow(options.b + 1, options.a);
  std::vector<float> inverse;
  inverse.reserve(points_of_class.size());
  for (const std::uint32_t own : points_of_class) {
    const double frequency = static_cast<double>(own) + options.b;
    inverse.push_back(
        static_cast<float>(1 + (frequency > 0 ? c * portable_pow(frequency, -options.a) : c)));
  }
  return inverse;
}

SOMA_INLINE void Ranking::add(std::span<const std::int32_t> best,
                              std::span<const std::int32_t> labels) {
  // 1 / log2(1 + rank).
  static constexpr double gains[5] = {1, 0.63092975357145743, 0.5, 0.43067655807339306,
                                      0.38685280723454163};
  const auto weight = [&](std::int32_t id) {
    if (id < 0 || static_cast<std::size_t>(id) >= inverse_.size())
      fail(error_id::data_labels, "metrics::Ranking", "class", std::to_string(id),
           "0 to " + std::to_string(inverse_.size()) + " - 1");
    return inverse_[static_cast<std::size_t>(id)];
  };
  ++points_;
  own_.clear();
  if (!inverse_.empty())
    for (const std::int32_t label : labels) own_.push_back(weight(label));
  const std::size_t shown = (std::min)(own_.size(), ranks.back());
  std::partial_sort(own_.begin(), own_.begin() + static_cast<std::ptrdiff_t>(shown), own_.end(),
                    std::greater<>());
  double hits = 0, gain = 0, ideal = 0, weighted = 0, most_weighted = 0;
  for (std::size_t rank = 0, at = 0; rank < ranks.back(); ++rank) {
    if (rank < labels.size()) ideal += gains[rank];
    if (rank < shown) most_weighted += static_cast<double>(own_[rank]);
    if (rank < best.size() && std::binary_search(labels.begin(), labels.end(), best[rank])) {
      hits += 1;
      gain += gains[rank];
      if (!inverse_.empty()) weighted += static_cast<double>(weight(best[rank]));
    }
    if (rank + 1 != ranks[at]) continue;
    hits_[at] += hits;
    gain_[at] += ideal > 0 ? gain / ideal : 0;
    weighted_hits_[at] += weighted;
    best_weighted_hits_[at] += most_weighted;
    ++at;
  }
}

SOMA_INLINE double Ranking::precision(std::size_t at) const {
  return hits_[at] / static_cast<double>(points_) / static_cast<double>(ranks[at]);
}

SOMA_INLINE double Ranking::ndcg(std::size_t at) const {
  return gain_[at] / static_cast<double>(points_);
}

SOMA_INLINE double Ranking::psp(std::size_t at) const {
  if (inverse_.empty()) return std::numeric_limits<double>::quiet_NaN();
  return weighted_hits_[at] / best_weighted_hits_[at];
}

SOMA_INLINE Values Ranking::values() const {
  Values values;
  const auto put = [&](std::string_view name, std::string_view title, double value,
                       std::size_t at) {
    const std::string rank = std::to_string(ranks[at]);
    values.push_back({std::string(name) + "_at_" + rank, std::string(title) + "@" + rank, value});
  };
  for (std::size_t at = 0; at < ranks.size(); ++at) put("p", "P", precision(at), at);
  for (std::size_t at = 1; at < ranks.size(); ++at) put("ndcg", "nDCG", ndcg(at), at);
  if (!inverse_.empty())
    for (std::size_t at = 0; at < ranks.size(); ++at) put("psp", "PSP", psp(at), at);
  return values;
}

}  // namespace SOMA_NAMESPACE::metrics
