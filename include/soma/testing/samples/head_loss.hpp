#pragma once
// Samples of head_loss, and its formula in double.

#include <soma/ops/loss/head_loss.hpp>
#include <soma/ops/samples.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

// The loss of a row of logits, of whose labels each has the same share.
inline double head_loss_of_row(const std::vector<double>& logits, const std::vector<double>& labels,
                               double smoothing) {
  double sum = 0, mean = 0, own = 0;
  for (const double logit : logits) {
    sum += std::exp(logit);
    mean += logit / static_cast<double>(logits.size());
  }
  for (const double label : labels)
    own += logits[static_cast<std::size_t>(label)] / static_cast<double>(labels.size());
  return (1 - smoothing) * (std::log(sum) - own) + smoothing * (std::log(sum) - mean);
}

inline std::vector<ReferenceTensor> head_loss_reference(
    const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
  const auto& setting = sample.attributes.as<CrossEntropySetting>();
  const std::size_t rows = inputs[0].shape[0], width = inputs[0].shape[1],
                    classes = inputs[1].shape[0];
  const bool bias = inputs.size() > 3 && inputs[3].defined,
             lists = inputs.size() > 4 && inputs[4].defined;
  ReferenceTensor losses{Shape{rows}, std::vector<double>(rows)};
  double counted = 0, total = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    std::vector<double> logits(classes), labels;
    for (std::size_t c = 0; c < classes; ++c) {
      logits[c] = bias ? inputs[3].values[c] : 0;
      for (std::size_t k = 0; k < width; ++k)
        logits[c] += inputs[0].values[i * width + k] * inputs[1].values[c * width + k];
    }
    const std::size_t begin = lists ? static_cast<std::size_t>(inputs[4].values[i]) : i,
                      end = lists ? static_cast<std::size_t>(inputs[4].values[i + 1]) : i + 1;
    for (std::size_t k = begin; k < end; ++k)
      if (static_cast<std::int64_t>(inputs[2].values[k]) != setting.ignore_index)
        labels.push_back(inputs[2].values[k]);
    if (labels.empty()) continue;
    counted += 1;
    total += losses.values[i] =
        head_loss_of_row(logits, labels, static_cast<double>(setting.label_smoothing));
  }
  if (setting.reduction == LossReduction::none) return {losses};
  const double divisor = setting.denominator != 0 ? setting.denominator : counted;
  return {{Shape{}, {setting.reduction == LossReduction::mean ? total / divisor : total}}};
}

inline OperatorSamples head_loss_samples() {
  OperatorSamples result;
  result.reference = &head_loss_reference;
  struct Case {
    std::size_t rows, width, classes;
    std::vector<double> labels{}, offsets{};
    CrossEntropySetting setting{};
    std::vector<std::size_t> lengths{};
    bool bias = false;
  };
  const std::vector<Case> cases = {
      {3, 4, 7, {2, 0, 6}},
      {2, 5, 1, {0, 0}},
      {5, 3, 11, {-100, 10, 4, -100, 0}, {}, {.denominator = 7}, {2, 3}},
      {4, 6, 37, {0, 36, 7, 12}, {}, {.label_smoothing = 0.1f, .ignore_index = 7}, {}, true},
      {3, 2, 5, {1, 4, 1}, {}, {.reduction = LossReduction::none, .label_smoothing = 0.2f}},
      {2, 3, panel_classes + 1, {panel_classes, 17}, {}, {.reduction = LossReduction::sum}},
      {3, 4, 7, {2, 0, 6}, {0, 1, 1, 3}, {.denominator = 3}, {}, true},
  };
  for (const Case& each : cases) {
    // Products of `width` numbers below 1, then sums over the classes in short runs.
    const double error = static_cast<double>(8 * each.width + 64) * 0x1p-24;
    const bool lists = !each.offsets.empty();
    result.samples.push_back({.name = std::to_string(each.rows) + " rows, " +
                                      std::to_string(each.classes) + " classes" +
                                      (lists ? ", lists" : ""),
                              .inputs = {{.shape = Shape{each.rows, each.width}},
                                         {.shape = Shape{each.classes, each.width}},
                                         {.shape = Shape{each.labels.size()},
                                          .dtype = DType::int32,
                                          .values = each.labels},
                                         {.shape = Shape{each.classes}, .left_out = !each.bias},
                                         {.shape = Shape{each.offsets.size()},
                                          .dtype = DType::int64,
                                          .values = each.offsets,
                                          .left_out = !lists}},
                              .attributes = each.setting,
                              .lengths = each.lengths,
                              .error = error,
                              .gradient_error = error});
  }
  return result;
}

}  // namespace SOMA_NAMESPACE::detail
