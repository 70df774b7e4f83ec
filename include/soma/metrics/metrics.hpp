#pragma once
// Metrics: the numbers that an evaluation counts beside the loss. A task chooses them
// (nn::Task::metrics()); cases are added batch by batch, and values are read at the end.

#include <soma/tensor/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::metrics {

class Classification;

struct Value {
  std::string name;   // as options and logs have it: "macro_f1"
  std::string title;  // as a report prints it: "macro F1"
  double value = 0;   // NaN if the cases do not define it, as the AUC of one class
  bool higher_is_better = true;
};
using Values = std::vector<Value>;

const Value* find(const Values& values, std::string_view name);

// Four digits behind the point; "-" if the value is not defined.
std::string shown(double value);

class Metrics {
 public:
  virtual ~Metrics() = default;

  // The number of scores of a case.
  virtual std::size_t outputs() const = 0;
  // Adds the cases of a batch: outputs() scores for each case, side by side, and the batch's
  // labels. Error train.label.
  virtual void add(std::span<const float> scores, const Tensor& labels) = 0;
  virtual std::uint64_t cases() const = 0;
  // The values in the order of a report. Names and their order do not depend on the cases.
  virtual Values values() const = 0;
  // The confusion matrix and its metrics, for a classifier; nullptr otherwise.
  virtual const Classification* classification() const { return nullptr; }

 protected:
  Metrics() = default;
  Metrics(const Metrics&) = default;
  Metrics& operator=(const Metrics&) = default;
};

}  // namespace SOMA_NAMESPACE::metrics

#ifndef SOMA_DISPATCH
#include <soma/metrics/impl/metrics.ipp>
#endif
