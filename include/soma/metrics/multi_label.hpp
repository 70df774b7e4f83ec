#pragma once
// Metrics of a classifier with several labels a case: F1 over all labels, and label by label.

#include <soma/base/error.hpp>
#include <soma/metrics/metrics.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace soma::metrics {

// A label is predicted if its logit is above 0 (a probability above one half).
class MultiLabel final : public Metrics {
 public:
  explicit MultiLabel(std::size_t label_count = 0) : counts_(label_count) {}
  // `names`: of the labels, for reports.
  explicit MultiLabel(std::vector<std::string> names)
      : counts_(names.size()), names_(std::move(names)) {}

  std::size_t outputs() const override { return counts_.size(); }
  // `labels`: 0 or 1 for each label of each case, fp32 or uint8.
  void add(std::span<const float> scores, const Tensor& labels) override {
    const bool bytes = labels.dtype() == DType::uint8;
    if ((!bytes && labels.dtype() != DType::fp32) || labels.elements() != scores.size())
      fail(error_id::train_label, "metrics::MultiLabel", "labels", labels.describe(),
           std::to_string(scores.size()) + " numbers, fp32 or uint8");
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const bool truth =
          bytes ? labels.data<std::uint8_t>()[i] != 0 : labels.data<float>()[i] > 0.5f;
      const bool predicted = scores[i] > 0;
      Counts& counts = counts_[i % counts_.size()];
      counts.hits += truth && predicted ? 1 : 0;
      counts.true_labels += truth ? 1 : 0;
      counts.predictions += predicted ? 1 : 0;
    }
    cases_ += counts_.empty() ? 0 : scores.size() / counts_.size();
  }
  std::uint64_t cases() const override { return cases_; }

  // F1 of one label; 0 if the label is neither given nor predicted.
  double f1(std::size_t label) const { return counts_[label].f1(); }
  // F1 over all labels together.
  double micro_f1() const {
    Counts all;
    for (const Counts& counts : counts_) {
      all.hits += counts.hits;
      all.true_labels += counts.true_labels;
      all.predictions += counts.predictions;
    }
    return all.f1();
  }
  // The mean over the labels that are given or predicted somewhere: nothing is known of the others.
  double macro_f1() const {
    double sum = 0, met = 0;
    for (const Counts& counts : counts_) {
      sum += counts.f1();
      met += counts.true_labels + counts.predictions != 0 ? 1 : 0;
    }
    return met == 0 ? 0 : sum / met;
  }

  // micro_f1, macro_f1, and f1_0, f1_1 ... label by label.
  Values values() const override {
    Values values{{"micro_f1", "micro F1", micro_f1()}, {"macro_f1", "macro F1", macro_f1()}};
    for (std::size_t i = 0; i < counts_.size(); ++i)
      values.push_back({"f1_" + std::to_string(i),
                        "F1 of " + (names_.empty() ? "label " + std::to_string(i) : names_[i]),
                        f1(i)});
    return values;
  }

 private:
  struct Counts {
    double f1() const {
      const std::uint64_t sum = true_labels + predictions;
      return sum == 0 ? 0 : 2 * static_cast<double>(hits) / static_cast<double>(sum);
    }
    std::uint64_t hits = 0, true_labels = 0, predictions = 0;
  };

  std::vector<Counts> counts_;
  std::vector<std::string> names_;
  std::uint64_t cases_ = 0;
};

}  // namespace soma::metrics
