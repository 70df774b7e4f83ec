#pragma once
// Cross entropy with class weights: the weighted mean
//     sum over rows of w[label] * loss / sum over rows of w[label],
// as in PyTorch's CrossEntropyLoss(weight=w). Large weights let rare classes count as much as
// frequent ones.

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

namespace soma::nn {

// The reduction of the cross entropy: the mean for a whole batch, the sum for a part of a batch.
inline CrossEntropySetting loss_of(const data::Batch& batch) {
  return {.reduction = batch.part ? LossReduction::sum : LossReduction::mean};
}
inline bool is_ignored(std::int64_t label) { return label == CrossEntropySetting{}.ignore_index; }

// Weights with which each class adds the same amount to the loss: a class with n of the N rows gets
// N / (classes * n). A class without rows gets 0.
inline std::vector<float> balanced_class_weights(std::span<const std::uint64_t> rows) {
  double all = 0;
  for (const std::uint64_t count : rows) all += static_cast<double>(count);
  std::vector<float> weights;
  for (const std::uint64_t count : rows)
    weights.push_back(count == 0 ? 0.0f
                                 : static_cast<float>(all / (static_cast<double>(rows.size()) *
                                                             static_cast<double>(count))));
  return weights;
}

// Error operator.value: a class without a weight, a weight that is negative or not finite, or all
// weights 0.
inline void check_class_weights(std::string_view operation, std::span<const float> weights,
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

// Class weights change the results, so a run is resumed with the same weights only.
inline void describe_class_weights(Record& identity, std::span<const float> weights) {
  if (weights.empty()) return;
  std::string all;
  for (const float weight : weights)
    all.append(all.empty() ? "" : " ").append(to_text(static_cast<double>(weight)));
  identity.set("class_weights", all);
}

// The divisor of the mean loss of a batch: the sum of the weights of labels that are not ignored,
// or their number if there are no weights. A sum in double, in the order of the batch.
inline double counted_labels(const data::Batch& batch, std::span<const float> weights = {}) {
  double counted = 0;
  for (const std::int64_t label : data::class_labels(batch.labels))
    if (!is_ignored(label))
      counted +=
          weights.empty() ? 1 : static_cast<double>(weights[static_cast<std::size_t>(label)]);
  return counted;
}

// The loss of a batch of checked class labels: the mean for a whole batch, the sum for a part. The
// sums run over the batch's shards, so that the bits do not depend on threads and ranks.
inline Var class_loss(Tape& tape, const Var& logits, const data::Batch& batch,
                      std::span<const float> weights = {}) {
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

}  // namespace soma::nn
