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

namespace SOMA_NAMESPACE::metrics {

// For one or several numbers in each case. Errors are means over cases and outputs; R2 is the mean
// over outputs, each relative to its own mean, as in scikit-learn. Sums are double, in the order of
// the cases.
class Regression final : public Metrics {
 public:
  explicit Regression(std::size_t output_count = 1) : sums_(output_count) {}

  SOMA_INLINE std::size_t outputs() const override;
  // `labels`: fp32 targets, one for each score.
  SOMA_INLINE void add(std::span<const float> scores, const Tensor& labels) override;
  std::uint64_t cases() const override { return cases_; }

  double mse() const;
  double mae() const;
  // If all targets of an output are equal: 1 if the predictions equal them, else 0. NaN for fewer
  // than two cases.
  double r2() const;

  SOMA_INLINE Values values() const override;

 private:
  struct Sums {
    void add(double score, double target);
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

}  // namespace SOMA_NAMESPACE::metrics

#ifndef SOMA_DISPATCH
#include <soma/metrics/impl/regression.ipp>
#endif
