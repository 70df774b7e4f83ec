#pragma once
// The functions of class_weights.hpp.

#include <soma/nn/class_weights.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/base/error.hpp>
#include <soma/base/record.hpp>
#include <soma/data/batch.hpp>
#include <soma/data/labels.hpp>
#include <soma/ops/settings.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE CrossEntropySetting loss_of(const data::Batch& batch) {
  return {.reduction = batch.part ? LossReduction::sum : LossReduction::mean};
}

SOMA_INLINE bool is_ignored(std::int64_t label) {
  return label == CrossEntropySetting{}.ignore_index;
}

SOMA_INLINE std::vector<float> balanced_class_weights(std::span<const std::int64_t> labels,
                                                      std::size_t classes) {
  std::vector<std::uint64_t> rows(classes);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (is_ignored(labels[i])) continue;
    if (labels[i] < 0 || static_cast<std::uint64_t>(labels[i]) >= classes)
      fail(error_id::train_label, "balanced_class_weights", "label " + std::to_string(i),
           std::to_string(labels[i]), "0 to below " + std::to_string(classes));
    ++rows[static_cast<std::size_t>(labels[i])];
  }
  return balanced_class_weights(rows);
}

SOMA_INLINE std::vector<float> balanced_class_weights(std::span<const std::uint64_t> rows) {
  double all = 0;
  for (const std::uint64_t count : rows) all += static_cast<double>(count);
  std::vector<float> weights;
  for (const std::uint64_t count : rows)
    weights.push_back(count == 0 ? 0.0f
                                 : static_cast<float>(all / (static_cast<double>(rows.size()) *
                                                             static_cast<double>(count))));
  return weights;
}

SOMA_INLINE void check_class_weights(std::string_view operation, std::span<const float> weights,
                                     std::size_t classes) {
  if (weights.empty()) return;
  if (weights.size() != classes)
    fail(error_id::operator_value, operation, "class_weights", std::to_string(weights.size()),
         "none, or one for each of " + std::to_string(classes) + " classes");
  bool any = false;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0) || std::isinf(weights[i]))
      fail(error_id::operator_value, operation, "class_weights[" + std::to_string(i) + "]",
           to_text(static_cast<double>(weights[i])), "a finite number from 0");
    any = any || weights[i] > 0;
  }
  if (!any)
    fail(error_id::operator_value, operation, "class_weights", "all 0", "one above 0 at least");
}

SOMA_INLINE void describe_class_weights(Record& identity, std::span<const float> weights) {
  if (weights.empty()) return;
  std::string all;
  for (const float weight : weights)
    all.append(all.empty() ? "" : " ").append(to_text(static_cast<double>(weight)));
  identity.set("class_weights", all);
}

SOMA_INLINE double counted_labels(const data::Batch& batch, std::span<const float> weights) {
  double counted = 0;
  for (const std::int64_t label : data::class_labels(batch.labels))
    if (!is_ignored(label))
      counted +=
          weights.empty() ? 1 : static_cast<double>(weights[static_cast<std::size_t>(label)]);
  return counted;
}

SOMA_INLINE Var class_loss(Tape& tape, const Var& logits, const data::Batch& batch,
                           std::span<const float> weights) {
  if (weights.empty())
    return cross_entropy(tape, logits, tape.constant(batch.labels), loss_of(batch));
  Context& context = tape.context();
  std::vector<float> factors;
  for (const std::int64_t label : data::class_labels(batch.labels))
    factors.push_back(is_ignored(label) ? 0 : weights[static_cast<std::size_t>(label)]);
  const Var losses =
      cross_entropy(tape, logits, tape.constant(batch.labels), {.reduction = LossReduction::none});
  const Tensor factor = Tensor::from(context, std::span<const float>(factors), losses.shape());
  const Var total = sum(tape, mul(tape, losses, tape.constant(factor)));
  if (batch.part) return total;
  const double weight = counted_labels(batch, weights);
  const float divisor[] = {weight == 0 ? 1.0f : static_cast<float>(weight)};
  return div(tape, total,
             tape.constant(Tensor::from(context, std::span<const float>(divisor), Shape{})));
}

}  // namespace SOMA_NAMESPACE::nn
