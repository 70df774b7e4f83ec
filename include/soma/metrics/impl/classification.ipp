#pragma once
// The functions of classification.hpp.

#include <soma/metrics/classification.hpp>

#include <soma/base/error.hpp>
#include <soma/data/labels.hpp>
#include <soma/metrics/metrics.hpp>
#include <soma/ops/settings.hpp>
#include <soma/runtime/float_environment.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::metrics {

SOMA_INLINE Interval wilson_interval(std::uint64_t successes, std::uint64_t cases) {
  if (cases == 0) return {0, 1};
  constexpr double z = 1.959963984540054;
  const double n = static_cast<double>(cases), p = static_cast<double>(successes) / n;
  const double center = (p + z * z / (2 * n)) / (1 + z * z / n);
  const double half = z * std::sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n);
  // The interval contains p even after rounding.
  return {(std::min)((std::max)(center - half, 0.0), p),
          (std::max)((std::min)(center + half, 1.0), p)};
}

SOMA_INLINE double area_under_curve(std::vector<float> negatives, std::vector<float> positives) {
  if (negatives.empty() || positives.empty()) return std::numeric_limits<double>::quiet_NaN();
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

SOMA_INLINE Classification::Classification(std::size_t class_count)
    : classes_(class_count),
      labels_(class_count),
      predictions_(class_count),
      right_(class_count),
      confusion_(class_count <= most_matrix_classes ? class_count * class_count : 0) {}

SOMA_INLINE void Classification::add(std::span<const float> scores, const Tensor& labels) {
  const std::vector<std::int64_t> list = data::class_labels(labels);
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i] != CrossEntropySetting{}.ignore_index)
      add(scores.subspan(i * classes_, classes_), list[i]);
}

SOMA_INLINE void Classification::add(std::span<const float> scores, std::int64_t label) {
  if (scores.size() != classes_ || label < 0 || static_cast<std::size_t>(label) >= classes_)
    fail(error_id::train_label, "metrics::Classification", "label",
         std::to_string(label) + " beside " + std::to_string(scores.size()) + " scores",
         "a class below " + std::to_string(classes_));
  const auto truth = static_cast<std::size_t>(label);
  std::size_t best = 0;
  for (std::size_t i = 1; i < classes_; ++i)
    if (scores[i] > scores[best]) best = i;
  const std::size_t index = truth * classes_ + best;
  if (classes_ <= most_matrix_classes)
    ++confusion_[index];
  else
    indices_.push_back(index);
  ++labels_[truth];
  ++predictions_[best];
  right_[truth] += best == truth ? 1 : 0;
  ++cases_;
  correct_ += best == truth ? 1 : 0;
  if (classes_ == 2) (truth == 1 ? positives_ : negatives_).push_back(scores[1] - scores[0]);
}

SOMA_INLINE std::vector<Confusion> Classification::confusions() const {
  std::vector<Confusion> cells;
  for (std::size_t index = 0; index < confusion_.size(); ++index)
    if (confusion_[index] != 0)
      cells.push_back({index / classes_, index % classes_, confusion_[index]});
  std::vector<std::size_t> indices = indices_;
  std::sort(indices.begin(), indices.end());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (i == 0 || indices[i] != indices[i - 1])
      cells.push_back({indices[i] / classes_, indices[i] % classes_, 0});
    ++cells.back().cases;
  }
  return cells;
}

SOMA_INLINE double Classification::accuracy() const {
  return cases_ == 0 ? 0 : ratio(correct_, cases_);
}

SOMA_INLINE Interval Classification::accuracy_interval() const {
  return wilson_interval(correct_, cases_);
}

SOMA_INLINE double Classification::precision(std::size_t label) const {
  return ratio(right_[label], predictions_[label]);
}

SOMA_INLINE double Classification::recall(std::size_t label) const {
  return ratio(right_[label], labels_[label]);
}

SOMA_INLINE double Classification::f1(std::size_t label) const {
  return ratio(2 * right_[label], labels_[label] + predictions_[label]);
}

SOMA_INLINE double Classification::macro_f1() const {
  double sum = 0, met = 0;
  for (std::size_t i = 0; i < classes_; ++i) {
    if (labels_[i] + predictions_[i] == 0) continue;
    sum += f1(i);
    met += 1;
  }
  return sum / met;
}

SOMA_INLINE std::optional<std::size_t> Classification::only_prediction() const {
  for (std::size_t i = 0; i < classes_; ++i)
    if (cases_ != 0 && predictions_[i] == cases_) return i;
  return std::nullopt;
}

SOMA_INLINE double Classification::majority_share() const {
  std::uint64_t most = 0;
  for (const std::uint64_t cases : labels_) most = (std::max)(most, cases);
  return cases_ == 0 ? 0 : ratio(most, cases_);
}

SOMA_INLINE double Classification::area_under_curve() const {
  return metrics::area_under_curve(negatives_, positives_);
}

SOMA_INLINE Values Classification::values() const {
  Values values{{"accuracy", "accuracy", accuracy()}, {"macro_f1", "macro F1", macro_f1()}};
  if (classes_ == 2) values.push_back({"auc", "AUC", area_under_curve()});
  return values;
}

}  // namespace SOMA_NAMESPACE::metrics
