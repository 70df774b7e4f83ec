#pragma once
// PointWeights: how much each feature of a point counts. A rare feature counts for more than a
// frequent one (idf), and one that tells about the classes for more than one that all classes share
// (g). A weighted point has length 1, so points with many features do not count for more.

#include <soma/data/point_source.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace SOMA_NAMESPACE::models {

struct PointWeightOptions {
  bool raw = false;  // values stay as they are
  // The exponent of g, from 0, which leaves g out, to 2.
  double strength = 0;
};

// The weight of a value: value (ln((1 + n) / (1 + df)) + 1) g, with n training points, of which df
// have the feature. A point is scaled to length 1 before g, and keeps its length under g. Features
// that no training point has count in that length with df = 1, and add nothing.
//
// g = (sum over classes of p r^2)^(strength / 2), r = ln((k + a) / (m - k + a (C - 1))) - ln((K +
// a) / (N - K + a)), p = (k + a) / (m + a C); k, m: points with the feature in the class, in all;
// K, N: the same summed over all features; a = 0.3. (For two classes and strength 1, the log-count
// ratio of Wang and Manning, ACL 2012.)
class PointWeights {
 public:
  PointWeights() = default;
  // Cost: the features of all points, each times its labels. Error operator.value: strength is not
  // in [0, 2].
  PointWeights(const data::SparsePoints& points, const PointWeightOptions& options);
  // As stored: idf and g have a number for each feature, or none.
  PointWeights(std::uint64_t points, std::vector<float> idf, std::vector<float> g);

  // The weights of a point's values; `values` empty: they are 1.
  void weigh(std::span<const std::int32_t> ids, std::span<const float> values,
             std::vector<float>& weighted) const;
  data::SparsePoints weigh(const data::SparsePoints& points) const;

  std::span<const float> idf() const { return idf_; }  // 0: no training point has the feature
  std::span<const float> g() const { return g_; }
  std::uint64_t points() const { return points_; }

 private:
  void count_idf(const data::SparsePoints& points);
  void tell(const data::SparsePoints& points, double strength);

  std::uint64_t points_ = 0;
  float unseen_ = 0;  // idf of a feature with df = 1
  std::vector<float> idf_{}, g_{};
};

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/point_weights.ipp>
#endif
