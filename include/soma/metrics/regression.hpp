#pragma once
// Metrics of a regression: mean squared error, mean absolute error, and the coefficient of
// determination R2 = 1 - (sum of squared errors) / (sum of squared distances from the mean).

#include <soma/base/error.hpp>
#include <soma/metrics/metrics.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace soma::metrics {

// For one or several numbers in each case. Errors are means over cases and outputs; R2 is the mean
// over outputs, each relative to its own mean, as in scikit-learn. Sums are double, in the order of
// the cases.
class Regression final : public Metrics {
 public:
  explicit Regression(std::size_t output_count = 1) : sums_(output_count) {}

  std::size_t outputs() const override { return sums_.size(); }
  // `labels`: fp32 targets, one for each score.
  void add(std::span<const float> scores, const Tensor& labels) override {
    if (labels.dtype() != DType::fp32 || labels.elements() != scores.size())
      fail(error_id::train_label, "metrics::Regression", "labels", labels.describe(),
           std::to_string(scores.size()) + " targets, fp32");
    const std::span<const float> targets = labels.span<float>();
    for (std::size_t i = 0; i < scores.size(); ++i)
      sums_[i % sums_.size()].add(static_cast<double>(scores[i]), static_cast<double>(targets[i]));
    cases_ += scores.size() / sums_.size();
  }
  std::uint64_t cases() const override { return cases_; }

  double mse() const {
    return mean([](const Sums& sums) { return sums.squared_error; });
  }
  double mae() const {
    return mean([](const Sums& sums) { return sums.absolute_error; });
  }
  // If all targets of an output are equal: 1 if the predictions equal them, else 0.
  double r2() const {
    double sum = 0;
    for (const Sums& sums : sums_)
      sum += sums.spread > 0 ? 1 - sums.squared_error / sums.spread : sums.squared_error == 0;
    return sums_.empty() ? 0 : sum / static_cast<double>(sums_.size());
  }

  Values values() const override {
    return {{"mse", "MSE", mse(), false}, {"mae", "MAE", mae(), false}, {"r2", "R2", r2()}};
  }

 private:
  struct Sums {
    void add(double score, double target) {
      const double error = score - target;
      squared_error += error * error;
      absolute_error += std::fabs(error);
      // Welford's update of mean and squared distances: no large numbers cancel.
      count += 1;
      const double before = target - target_mean;
      target_mean += before / count;
      spread += before * (target - target_mean);
    }
    double count = 0, squared_error = 0, absolute_error = 0, target_mean = 0, spread = 0;
  };
  template <class Of>
  double mean(const Of& of) const {
    double sum = 0, count = 0;
    for (const Sums& sums : sums_) {
      sum += of(sums);
      count += sums.count;
    }
    return count == 0 ? 0 : sum / count;
  }

  std::vector<Sums> sums_;
  std::uint64_t cases_ = 0;
};

}  // namespace soma::metrics
