#pragma once
// The functions of number_tasks.hpp.

#include <soma/nn/number_tasks.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/metrics/multi_label.hpp>
#include <soma/metrics/regression.hpp>
#include <soma/nn/task.hpp>

#include <cstddef>
#include <span>
#include <string_view>

namespace SOMA_NAMESPACE::nn::detail {

SOMA_INLINE Tensor labels_like(std::string_view task, Context& context, const Var& outputs,
                               const Tensor& labels, std::size_t width, std::size_t sequences) {
  if (!labels.defined())
    fail(error_id::train_label, task, "labels", "not defined", "a number for each output");
  if (outputs.value().elements() != sequences * width)
    fail(error_id::train_label, task, "outputs", outputs.value().describe(),
         to_string(Shape{sequences, width}));
  if (labels.elements() != sequences * width)
    fail(error_id::train_label, task, "labels", labels.describe(),
         to_string(Shape{sequences, width}));
  return contiguous(context, labels).reshape(outputs.shape());
}

SOMA_INLINE Var label_loss(Tape& tape, const Var& logits, const Tensor& labels,
                           std::span<const float> weights, LossReduction reduction) {
  const Var targets = tape.constant(labels);
  if (weights.empty()) return binary_cross_entropy_with_logits(tape, logits, targets, reduction);
  const Tensor positive = Tensor::from(tape.context(), weights, Shape{weights.size()});
  return weighted_binary_cross_entropy_with_logits(tape, logits, targets, tape.constant(positive),
                                                   reduction);
}

}  // namespace SOMA_NAMESPACE::nn::detail
