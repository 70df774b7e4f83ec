#pragma once
// The functions of multi_label.hpp.

#include <soma/metrics/multi_label.hpp>

#include <soma/base/error.hpp>
#include <soma/metrics/metrics.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::metrics {

SOMA_INLINE std::size_t MultiLabel::outputs() const { return counts_.size(); }

SOMA_INLINE void MultiLabel::add(std::span<const float> scores, const Tensor& labels) {
  const bool bytes = labels.dtype() == DType::uint8;
  if ((!bytes && labels.dtype() != DType::fp32) || labels.elements() != scores.size())
    fail(error_id::train_label, "metrics::MultiLabel", "labels", labels.describe(),
         std::to_string(scores.size()) + " numbers, fp32 or uint8");
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const bool truth = bytes ? labels.data<std::uint8_t>()[i] != 0 : labels.data<float>()[i] > 0.5f;
    const bool predicted = scores[i] > 0;
    Counts& counts = counts_[i % counts_.size()];
    counts.hits += truth && predicted ? 1 : 0;
    counts.true_labels += truth ? 1 : 0;
    counts.predictions += predicted ? 1 : 0;
  }
  cases_ += counts_.empty() ? 0 : scores.size() / counts_.size();
}

SOMA_INLINE double MultiLabel::f1(std::size_t label) const { return counts_[label].f1(); }

SOMA_INLINE double MultiLabel::micro_f1() const {
  Counts all;
  for (const Counts& counts : counts_) {
    all.hits += counts.hits;
    all.true_labels += counts.true_labels;
    all.predictions += counts.predictions;
  }
  return all.f1();
}

SOMA_INLINE double MultiLabel::macro_f1() const {
  double sum = 0, met = 0;
  for (const Counts& counts : counts_) {
    if (counts.true_labels + counts.predictions == 0) continue;
    sum += counts.f1();
    met += 1;
  }
  return sum / met;
}

SOMA_INLINE Values MultiLabel::values() const {
  Values values{{"micro_f1", "micro F1", micro_f1()}, {"macro_f1", "macro F1", macro_f1()}};
  for (std::size_t i = 0; i < counts_.size(); ++i)
    values.push_back({"f1_" + std::to_string(i),
                      "F1 of " + (names_.empty() ? "label " + std::to_string(i) : names_[i]),
                      f1(i)});
  return values;
}

SOMA_INLINE double MultiLabel::Counts::f1() const {
  const std::uint64_t sum = true_labels + predictions;
  return 2 * static_cast<double>(hits) / static_cast<double>(sum);
}

}  // namespace SOMA_NAMESPACE::metrics
