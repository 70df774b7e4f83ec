#pragma once
// Negative log likelihood of log probabilities [..., classes] with class labels [...]: -x[label]
// for each row. Settings as for cross_entropy, without label smoothing. If the label's log
// probability is -infinity, the loss is infinite.

#include <soma/ops/loss/cross_entropy.hpp>
#include <soma/ops/loss/loss.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/rows/embedding.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

inline void nll_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<CrossEntropySetting>();
  const Tensor &x = call.inputs[0], &labels = call.inputs[1];
  check_min_rank("nll_loss", "x", x, 1);
  check_floating("nll_loss", "x", x);
  check_index_type("nll_loss", "labels", labels);
  if (labels.elements() != x.shape().rows())
    fail(error_id::tensor_shape, "nll_loss", "labels", labels.describe(),
         "one for each row of x, " + x.describe());
  if (setting.label_smoothing != 0)
    fail(error_id::operator_value, "nll_loss", "label_smoothing",
         std::to_string(setting.label_smoothing), "0 (cross_entropy has it)");
  const Shape rows = x.shape().without(x.rank() - 1);
  call.outputs[0] = {setting.reduction == LossReduction::none ? rows : Shape{}, DType::fp32};
}

// Calls each(row, index of its label) for the rows that count.
template <class Each>
void for_labels(const CrossEntropySetting& setting, const Tensor& labels, std::size_t classes,
                const Each& each) {
  for (std::size_t row = 0; row < labels.elements(); ++row)
    if (const std::int64_t label = index_at(labels, row); label != setting.ignore_index)
      each(row, row * classes + static_cast<std::size_t>(label));
}

inline void nll_plain(const OperatorCall& call) {
  const auto& setting = call.attributes.as<CrossEntropySetting>();
  const Tensor &x = call.inputs[0], &labels = call.inputs[1];
  const std::size_t classes = x.shape().columns();
  const std::size_t counted = counted_labels(setting, labels, classes);
  const bool each = setting.reduction == LossReduction::none;
  const Tensor losses =
      each ? call.outputs[0] : Tensor::empty(call.context, Shape{x.shape().rows()});
  float* loss = losses.mutable_data<float>();
  for (std::size_t row = 0; row < losses.elements(); ++row) loss[row] = 0;
  for_labels(setting, labels, classes,
             [&](std::size_t row, std::size_t at) { loss[row] = -x.data<float>()[at]; });
  if (!each)
    *call.outputs[0].mutable_data<float>() =
        ordered_sum(call.context, losses, x.shape().without(x.rank() - 1), call.sequences) /
        loss_denominator(setting.reduction, setting.denominator, counted);
}
inline void nll_host(const OperatorCall& call) { with_plain_tensors(call, 0, nll_plain); }

inline void nll_gradient(const GradientCall& call) {
  const auto& setting = call.attributes.as<CrossEntropySetting>();
  const Tensor labels = contiguous(call.context, call.inputs[1]);
  const Tensor dloss = contiguous(call.context, call.output_gradients[0]);
  const std::size_t classes = call.inputs[0].shape().columns();
  const bool each = setting.reduction == LossReduction::none;
  const float all =
      each ? 0
           : -dloss.item<float>() / loss_denominator(setting.reduction, setting.denominator,
                                                     counted_labels(setting, labels, classes));
  const Tensor dx = Tensor::zeros(call.context, call.inputs[0].shape());
  float* to = dx.mutable_data<float>();
  for_labels(setting, labels, classes, [&](std::size_t row, std::size_t at) {
    to[at] = each ? -dloss.data<float>()[row] : all;
  });
  const DType dtype = call.inputs[0].dtype();
  call.input_gradients[0].values = dtype == DType::fp32 ? dx : in_type(call.context, dx, dtype);
}

}  // namespace detail

namespace ops {

inline constexpr Operator nll_loss{.name = "nll_loss",
                                   .min_inputs = 2,
                                   .max_inputs = 2,
                                   .keeps_inputs = 2,
                                   .shape = &detail::nll_shape,
                                   .host = &detail::nll_host,
                                   .gradient = &detail::nll_gradient,
                                   .wide_gradients = true,
                                   .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
