#pragma once
// Metrics of a classifier of one label: accuracy, F1, area under the ROC curve, confusion matrix.

#include <soma/base/error.hpp>
#include <soma/data/labels.hpp>
#include <soma/metrics/metrics.hpp>
#include <soma/ops/settings.hpp>
#include <soma/runtime/float_environment.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::metrics {

struct Interval {
  double low = 0, high = 0;
};

// The 95 % interval of a proportion, after Wilson (1927): sensible near 0 and 1 and for few cases.
Interval wilson_interval(std::uint64_t successes, std::uint64_t cases);

// The area under the ROC curve of the scores of negatives and positives: the probability that a
// positive scores higher than a negative. A tie counts half; so does a NaN score, which has no
// place in the order. NaN if there are no negatives or no positives.
double area_under_curve(std::vector<float> negatives, std::vector<float> positives);

// The number of cases of class `label` that were predicted as class `prediction`.
struct Confusion {
  std::size_t label = 0, prediction = 0;
  std::uint64_t cases = 0;
  friend bool operator==(const Confusion&, const Confusion&) = default;
};

// Copies are independent. Memory grows with the classes and the cases, never with the square of
// many classes.
class Classification final : public Metrics {
 public:
  // With more classes there is no matrix: a matrix of this many classes takes 32 MiB.
  static constexpr std::size_t most_matrix_classes = 2048;

  explicit Classification(std::size_t class_count = 0);

  std::size_t outputs() const override { return classes_; }
  // Adds cases with class labels, int32 or int64. Cases whose labels cross entropy ignores are not
  // counted.
  SOMA_INLINE void add(std::span<const float> scores, const Tensor& labels) override;
  // One case: its logits, one for each class, and its label. Error train.label.
  void add(std::span<const float> scores, std::int64_t label);

  std::size_t classes() const { return classes_; }
  std::uint64_t cases() const override { return cases_; }
  std::uint64_t correct() const { return correct_; }
  // [label, prediction], row-major; empty with more than most_matrix_classes classes.
  std::span<const std::uint64_t> confusion() const { return confusion_; }
  // The entries of that matrix that are not 0, row by row, for any number of classes.
  std::vector<Confusion> confusions() const;
  double accuracy() const;
  Interval accuracy_interval() const;
  // Metrics of one class. NaN if the cases do not define them: the precision of a class that is
  // never predicted, the recall of one that is no case's label, the F1 of one that is neither.
  double precision(std::size_t label) const;
  double recall(std::size_t label) const;
  double f1(std::size_t label) const;
  // The mean over the classes that occur as a label or a prediction: nothing is known of the
  // others. NaN if there are none.
  double macro_f1() const;
  // The class that was predicted for all cases; not set if there were several classes, or no cases.
  std::optional<std::size_t> only_prediction() const;
  // The share of the most frequent label: the accuracy of guessing it every time.
  double majority_share() const;
  // For two classes, of which both have cases; otherwise NaN.
  double area_under_curve() const;

  // accuracy, macro_f1 and, for two classes, auc.
  SOMA_INLINE Values values() const override;
  const Classification* classification() const override { return this; }

 private:
  // NaN for 0 / 0.
  static double ratio(std::uint64_t a, std::uint64_t b) {
    return static_cast<double>(a) / static_cast<double>(b);
  }

  std::size_t classes_;
  // For each class, the number of cases with that label, with that prediction, and with both.
  std::vector<std::uint64_t> labels_, predictions_, right_;
  std::vector<std::uint64_t> confusion_;
  std::vector<std::size_t> indices_;  // in the matrix that is not there, of each case
  std::uint64_t cases_ = 0, correct_ = 0;
  std::vector<float> negatives_, positives_;
};

}  // namespace SOMA_NAMESPACE::metrics

#ifndef SOMA_DISPATCH
#include <soma/metrics/impl/classification.ipp>
#endif
