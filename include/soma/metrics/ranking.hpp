#pragma once
// Metrics of classifiers that rank very many classes, where a point has several: P@k, nDCG@k, and
// PSP@k, which counts a rare class for more than a frequent one (Jain, Prabhu and Varma, "Extreme
// Multi-label Loss Functions for Recommendation, Tagging, Ranking and Other Missing Label
// Applications", KDD 2016).

#include <soma/metrics/metrics.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::metrics {

// The constants of the propensity. 0.6 and 2.6 are usual for Amazon's products, 0.5 and 0.4 for
// Wikipedia's pages.
struct PropensityOptions {
  double a = 0.55, b = 1.5;
};

// One number for each class, which falls as the class has more training points:
// 1 + C (N_l + b)^-a, with C = (ln N - 1) (b + 1)^a, not below 0; N_l: training points of the
// class; N: all training points. It is the inverse of the estimated probability that a class of a
// point is among the point's known labels. Error operator.value: a is not in [0, 1], or b is not in
// [0, 1000].
std::vector<float> inverse_propensities(std::span<const std::uint32_t> points_of_class,
                                        std::uint64_t points,
                                        const PropensityOptions& options = {});

// For k = 1, 3, 5. Each point counts the same, also a point with fewer than k labels, or with none:
//   P@k     labels among the best k, divided by k; mean over points
//   nDCG@k  the sum of 1 / log2(1 + rank) over labels among the best k, divided by that of the best
//           possible order; a point without labels counts 0; mean over points
//   PSP@k   the sum of inverse propensities of labels among the best k, over all points, divided by
//           that of the best possible order
class Ranking {
 public:
  static constexpr std::array<std::size_t, 3> ranks{1, 3, 5};

  // `inverse`: of inverse_propensities(); empty: PSP@k is not defined.
  explicit Ranking(std::vector<float> inverse = {}) : inverse_(std::move(inverse)) {}

  // `best`: classes, the likeliest first, each once; fewer than 5 count as wrong beyond their end.
  // `labels`: ascending, each once. Error data.labels: a class without a propensity.
  void add(std::span<const std::int32_t> best, std::span<const std::int32_t> labels);

  std::uint64_t points() const { return points_; }
  // `at`: index of `ranks`. NaN without points; psp() also without propensities or labels.
  double precision(std::size_t at) const;
  double ndcg(std::size_t at) const;
  double psp(std::size_t at) const;

  // p_at_1, p_at_3, p_at_5, ndcg_at_3, ndcg_at_5, and with propensities psp_at_1, psp_at_3,
  // psp_at_5. (nDCG@1 is P@1 where points have labels.)
  Values values() const;

 private:
  using Sums = std::array<double, ranks.size()>;

  std::vector<float> inverse_;
  std::vector<float> own_{};  // scratch: the inverse propensities of a point's labels
  std::uint64_t points_ = 0;
  Sums hits_{}, gain_{}, weighted_hits_{}, best_weighted_hits_{};
};

}  // namespace SOMA_NAMESPACE::metrics

#ifndef SOMA_DISPATCH
#include <soma/metrics/impl/ranking.ipp>
#endif
