#pragma once
// Negative log likelihood of log probabilities [..., classes] with class labels [...]: -x[label]
// for each row. Settings as for cross_entropy, without label smoothing. If the label's log
// probability is -infinity, the loss is infinite.

#include <soma/ops/loss/cross_entropy.hpp>
#include <soma/ops/loss/loss.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/rows/embedding.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/samples.hpp>
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
        ordered_sum(call.context, losses, call.sequences) /
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

inline OperatorSamples nll_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& x, const CrossEntropySetting& setting,
                       std::vector<double> labels, std::vector<std::size_t> lengths) {
    const double error = static_cast<double>(x.elements() + 2) * 0x1p-24;
    result.samples.push_back(
        {.name = to_string(x),
         .inputs = {{.shape = x, .low = -3, .high = 0},
                    {.shape = Shape{labels.size()}, .dtype = DType::int64, .values = labels}},
         .attributes = setting,
         .lengths = std::move(lengths),
         .error = error,
         .gradient_error = error});
  };
  add({5, 3}, {}, {0, 2, 1, 1, 0}, {});
  add({5, 3}, {.reduction = LossReduction::sum}, {0, -100, 1, 1, 0}, {2, 3});
  add({4, 37}, {.ignore_index = 7}, {0, 36, 7, 12}, {});
  add({3, 2}, {.reduction = LossReduction::none}, {1, 0, 1}, {});
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<CrossEntropySetting>();
    const std::size_t columns = inputs[0].shape.columns();
    ReferenceTensor losses{Shape{inputs[0].shape.rows()}, {}};
    double counted = 0;
    for (std::size_t row = 0; row < losses.shape[0]; ++row) {
      const auto label = static_cast<std::int64_t>(inputs[1].values[row]);
      const bool counts = label != setting.ignore_index;
      counted += counts ? 1 : 0;
      losses.values.push_back(
          counts ? -inputs[0].values[row * columns + static_cast<std::size_t>(label)] : 0);
    }
    if (setting.reduction == LossReduction::none) return std::vector<ReferenceTensor>{losses};
    return std::vector<ReferenceTensor>{
        {Shape{}, {reduced_loss(losses, setting.reduction, counted)}}};
  };
  return result;
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
                                   .samples = SOMA_BUILT_IN_SAMPLES(detail::nll_samples)};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
