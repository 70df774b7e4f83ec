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

namespace soma::metrics {

struct Interval {
  double low = 0, high = 0;
};

// The 95 % interval of a proportion, after Wilson (1927): sensible near 0 and 1 and for few cases.
inline Interval wilson_interval(std::uint64_t successes, std::uint64_t cases) {
  if (cases == 0) return {0, 1};
  constexpr double z = 1.959963984540054;
  const double n = static_cast<double>(cases), p = static_cast<double>(successes) / n;
  const double center = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n);
  // The interval contains p even after rounding.
  return {(std::min)((std::max)(center - half, 0.0), p),
          (std::max)((std::min)(center + half, 1.0), p)};
}

// The area under the ROC curve of the scores of negatives and positives: the probability that a
// positive scores higher than a negative. A tie counts half; so does a NaN score, which has no
// place in the order. 0.5 if there are no negatives or no positives.
inline double area_under_curve(std::vector<float> negatives, std::vector<float> positives) {
  if (negatives.empty() || positives.empty()) return 0.5;
  const auto pairs = [&] {
    return static_cast<double>(negatives.size()) * static_cast<double>(positives.size());
  };
  const auto is_nan = [](float score) { return std::isnan(score); };
  const double all = pairs();
  std::erase_if(negatives, is_nan);
  std::erase_if(positives, is_nan);
  std::sort(negatives.begin(), negatives.end());
  double below = 0.5 * (all - pairs());
  for (const float score : positives) {
    const auto [first, last] = std::equal_range(negatives.begin(), negatives.end(), score);
    below +=
        static_cast<double>(first - negatives.begin()) + 0.5 * static_cast<double>(last - first);
  }
  return below / all;
}

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

  explicit Classification(std::size_t class_count = 0)
      : classes_(class_count),
        labels_(class_count),
        predictions_(class_count),
        right_(class_count),
        confusion_(class_count <= most_matrix_classes ? class_count * class_count : 0) {}

  std::size_t outputs() const override { return classes_; }
  // Adds cases with class labels, int32 or int64. Cases whose labels cross entropy ignores are not
  // counted.
  void add(std::span<const float> scores, const Tensor& labels) override {
    const std::vector<std::int64_t> list = data::class_labels(labels);
    for (std::size_t i = 0; i < list.size(); ++i)
      if (list[i] != CrossEntropySetting{}.ignore_index)
        add(scores.subspan(i * classes_, classes_), list[i]);
  }
  // One case: its logits, one for each class, and its label. Error train.label.
  void add(std::span<const float> scores, std::int64_t label) {
    if (scores.size() != classes_ || label < 0 || static_cast<std::size_t>(label) >= classes_)
      fail(error_id::train_label, "metrics::Classification", "label",
           std::to_string(label) + " beside " + std::to_string(scores.size()) + " scores",
           "a class below " + std::to_string(classes_));
    const auto truth = static_cast<std::size_t>(label);
    std::size_t best = 0;
    for (std::size_t i = 1; i < classes_; ++i)
      if (scores[i] > scores[best]) best = i;
    const std::size_t place = truth * classes_ + best;
    if (classes_ <= most_matrix_classes)
      ++confusion_[place];
    else
      places_.push_back(place);
    ++labels_[truth];
    ++predictions_[best];
    right_[truth] += best == truth ? 1 : 0;
    ++cases_;
    correct_ += best == truth ? 1 : 0;
    if (classes_ == 2) (truth == 1 ? positives_ : negatives_).push_back(scores[1] - scores[0]);
  }

  std::size_t classes() const { return classes_; }
  std::uint64_t cases() const override { return cases_; }
  std::uint64_t correct() const { return correct_; }
  // [label, prediction], row-major; empty with more than most_matrix_classes classes.
  std::span<const std::uint64_t> confusion() const { return confusion_; }
  // The entries of that matrix that are not 0, row by row, for any number of classes.
  std::vector<Confusion> confusions() const {
    std::vector<Confusion> cells;
    for (std::size_t place = 0; place < confusion_.size(); ++place)
      if (confusion_[place] != 0)
        cells.push_back({place / classes_, place % classes_, confusion_[place]});
    std::vector<std::size_t> places = places_;
    std::sort(places.begin(), places.end());
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (i == 0 || places[i] != places[i - 1])
        cells.push_back({places[i] / classes_, places[i] % classes_, 0});
      ++cells.back().cases;
    }
    return cells;
  }
  double accuracy() const { return ratio(correct_, cases_); }
  Interval accuracy_interval() const { return wilson_interval(correct_, cases_); }
  // Metrics of one class; 0 for 0 / 0.
  double precision(std::size_t label) const { return ratio(right_[label], predictions_[label]); }
  double recall(std::size_t label) const { return ratio(right_[label], labels_[label]); }
  double f1(std::size_t label) const {
    return ratio(2 * right_[label], labels_[label] + predictions_[label]);
  }
  // The mean over the classes that occur as a label or a prediction: nothing is known of the
  // others.
  double macro_f1() const {
    double sum = 0, met = 0;
    for (std::size_t i = 0; i < classes_; ++i) {
      sum += f1(i);
      met += labels_[i] + predictions_[i] != 0 ? 1 : 0;
    }
    return ratio(sum, met);
  }
  // The class that was predicted for all cases; not set if there were several classes, or no cases.
  std::optional<std::size_t> only_prediction() const {
    for (std::size_t i = 0; i < classes_; ++i)
      if (cases_ != 0 && predictions_[i] == cases_) return i;
    return std::nullopt;
  }
  // The share of the most frequent label: the accuracy of guessing it every time.
  double majority_share() const {
    std::uint64_t most = 0;
    for (const std::uint64_t cases : labels_) most = (std::max)(most, cases);
    return ratio(most, cases_);
  }
  // For two classes; otherwise 0.5.
  double area_under_curve() const { return metrics::area_under_curve(negatives_, positives_); }

  // accuracy, macro_f1 and, for two classes, auc.
  Values values() const override {
    Values values{{"accuracy", "accuracy", accuracy()}, {"macro_f1", "macro F1", macro_f1()}};
    if (classes_ == 2) values.push_back({"auc", "AUC", area_under_curve()});
    return values;
  }
  const Classification* classification() const override { return this; }

 private:
  template <class Number>
  static double ratio(Number a, Number b) {
    return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
  }

  std::size_t classes_;
  // For each class, the number of cases with that label, with that prediction, and with both.
  std::vector<std::uint64_t> labels_, predictions_, right_;
  std::vector<std::uint64_t> confusion_;
  std::vector<std::size_t> places_;  // in the matrix that is not there, of each case
  std::uint64_t cases_ = 0, correct_ = 0;
  std::vector<float> negatives_, positives_;
};

}  // namespace soma::metrics
