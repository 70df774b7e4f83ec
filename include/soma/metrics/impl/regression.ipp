#pragma once
// The functions of regression.hpp.

#include <soma/metrics/regression.hpp>

#include <soma/base/error.hpp>
#include <soma/metrics/metrics.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::metrics {

SOMA_INLINE std::size_t Regression::outputs() const { return sums_.size(); }

SOMA_INLINE void Regression::add(std::span<const float> scores, const Tensor& labels) {
  if (labels.dtype() != DType::fp32 || labels.elements() != scores.size())
    fail(error_id::train_label, "metrics::Regression", "labels", labels.describe(),
         std::to_string(scores.size()) + " targets, fp32");
  const std::span<const float> targets = labels.span<float>();
  for (std::size_t i = 0; i < scores.size(); ++i)
    sums_[i % sums_.size()].add(static_cast<double>(scores[i]), static_cast<double>(targets[i]));
  cases_ += scores.size() / sums_.size();
}

SOMA_INLINE double Regression::mse() const {
  return mean([](const Sums& sums) { return sums.squared_error; });
}

SOMA_INLINE double Regression::mae() const {
  return mean([](const Sums& sums) { return sums.absolute_error; });
}

SOMA_INLINE double Regression::r2() const {
  if (cases_ < 2) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (const Sums& sums : sums_)
    sum += sums.spread > 0 ? 1 - sums.squared_error / sums.spread : sums.squared_error == 0;
  return sums_.empty() ? 0 : sum / static_cast<double>(sums_.size());
}

SOMA_INLINE Values Regression::values() const {
  return {{"mse", "MSE", mse(), false}, {"mae", "MAE", mae(), false}, {"r2", "R2", r2()}};
}

SOMA_INLINE void Regression::Sums::add(double score, double target) {
  const double error = score - target;
  squared_error += error * error;
  absolute_error += std::fabs(error);
  // Welford's update of mean and squared distances: no large numbers cancel.
  count += 1;
  const double before = target - target_mean;
  target_mean += before / count;
  spread += before * (target - target_mean);
}

}  // namespace SOMA_NAMESPACE::metrics
