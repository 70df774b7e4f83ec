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

namespace SOMA_NAMESPACE::metrics {

// A label is predicted if its logit is above 0 (a probability above one half).
class MultiLabel final : public Metrics {
 public:
  explicit MultiLabel(std::size_t label_count = 0) : counts_(label_count) {}
  // `names`: of the labels, for reports.
  explicit MultiLabel(std::vector<std::string> names)
      : counts_(names.size()), names_(std::move(names)) {}

  SOMA_INLINE std::size_t outputs() const override;
  // `labels`: 0 or 1 for each label of each case, fp32 or uint8.
  SOMA_INLINE void add(std::span<const float> scores, const Tensor& labels) override;
  std::uint64_t cases() const override { return cases_; }

  // F1 of one label; NaN if the label is neither given nor predicted.
  double f1(std::size_t label) const;
  // F1 over all labels together; NaN if no label is given or predicted.
  double micro_f1() const;
  // The mean over the labels that are given or predicted somewhere: nothing is known of the others.
  // NaN if there are none.
  double macro_f1() const;

  // micro_f1, macro_f1, and f1_0, f1_1 ... label by label.
  SOMA_INLINE Values values() const override;

 private:
  struct Counts {
    double f1() const;
    std::uint64_t hits = 0, true_labels = 0, predictions = 0;
  };

  std::vector<Counts> counts_;
  std::vector<std::string> names_;
  std::uint64_t cases_ = 0;
};

}  // namespace SOMA_NAMESPACE::metrics

#ifndef SOMA_DISPATCH
#include <soma/metrics/impl/multi_label.ipp>
#endif
