#pragma once
// Cross entropy of logits [..., classes] with class labels [...]: the negative log likelihood of
// the label under softmax(logits), with label smoothing (arXiv 1512.00567).

#include <soma/ops/loss/loss.hpp>
#include <soma/ops/rows/embedding.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/samples.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

inline void cross_entropy_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<CrossEntropySetting>();
  const Tensor &logits = call.inputs[0], &labels = call.inputs[1];
  check_min_rank("cross_entropy", "logits", logits, 1);
  check_floating("cross_entropy", "logits", logits);
  check_index_type("cross_entropy", "labels", labels);
  if (labels.elements() != logits.shape().rows())
    fail(error_id::tensor_shape, "cross_entropy", "labels", labels.describe(),
         "one for each row of logits, " + logits.describe());
  if (!(setting.label_smoothing >= 0 && setting.label_smoothing <= 1))
    fail(error_id::operator_value, "cross_entropy", "label_smoothing",
         std::to_string(setting.label_smoothing), "0 to 1");
  const Shape rows = logits.shape().without(logits.rank() - 1);
  call.outputs[0] = {setting.reduction == LossReduction::none ? rows : Shape{}, DType::fp32};
  // log-sum-exp in two terms (CrossEntropyArgs)
  call.outputs[1] = {Shape{logits.shape().rows(), 2}, DType::fp32};
}

inline CrossEntropyArgs cross_entropy_args(const CrossEntropySetting& setting,
                                           const TensorRows& logits, const Tensor& labels) {
  return {.rows = logits.rows(),
          .columns = logits.columns(),
          .logits = operand(logits),
          .labels = labels.raw(),
          .label_dtype = labels.dtype(),
          .ignore_index = setting.ignore_index,
          .smoothing = setting.label_smoothing};
}
inline CrossEntropyArgs some_rows(CrossEntropyArgs args, std::size_t begin, std::size_t end) {
  args.rows = end - begin;
  args.logits = part(args.logits, begin, 0);
  args.labels = static_cast<const std::byte*>(args.labels) + begin * size_of(args.label_dtype);
  if (args.loss != nullptr) args.loss += begin;
  args.log_sum_exp += 2 * begin;
  if (args.factors != nullptr) args.factors += begin;
  args.dlogits = part(args.dlogits, begin, 0);
  return args;
}

// The number of labels that count. Error operator.value: a label that is no class.
inline std::size_t counted_labels(const CrossEntropySetting& setting, const Tensor& labels,
                                  std::size_t classes) {
  std::size_t counted = 0;
  for (std::size_t i = 0; i < labels.elements(); ++i) {
    const std::int64_t label = index_at(labels, i);
    if (label == setting.ignore_index) continue;
    if (label < 0 || static_cast<std::uint64_t>(label) >= classes)
      fail(error_id::operator_value, "cross_entropy", "labels[" + std::to_string(i) + "]",
           std::to_string(label), "0 to " + std::to_string(classes) + " - 1, or ignore_index");
    ++counted;
  }
  return counted;
}
inline void cross_entropy_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<CrossEntropySetting>();
  Context& context = call.context;
  const TensorRows logits = rows_of(context, call.inputs[0]);
  const Tensor labels = contiguous(context, call.inputs[1]);
  const std::size_t counted = counted_labels(setting, labels, logits.shape().columns());
  const bool each = setting.reduction == LossReduction::none;
  const Tensor losses =
      each ? call.outputs[0] : Tensor::empty(context, Shape{logits.shape().rows()});
  CrossEntropyArgs args = cross_entropy_args(setting, logits, labels);
  args.loss = losses.mutable_data<float>();
  args.log_sum_exp = call.outputs[1].mutable_data<float>();
  for_ranges(context, args.rows, args.columns * 16, [&](std::size_t begin, std::size_t end) {
    context.kernels().loss.cross_entropy(some_rows(args, begin, end));
  });
  if (!each)
    *call.outputs[0].mutable_data<float>() =
        ordered_sum(context, losses, call.sequences) /
        loss_denominator(setting.reduction, setting.denominator, counted);
}

// Inputs logits, labels, log_sum_exp, dloss; output dlogits.
inline void cross_entropy_backward_shape(const ShapeCall& call) {
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}
inline void cross_entropy_backward_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<CrossEntropySetting>();
  Context& context = call.context;
  const TensorRows logits = rows_of(context, call.inputs[0]);
  const Tensor labels = contiguous(context, call.inputs[1]);
  const Tensor dloss = contiguous(context, call.inputs[3]);
  CrossEntropyArgs args = cross_entropy_args(setting, logits, labels);
  args.log_sum_exp = const_cast<float*>(call.inputs[2].data<float>());
  args.dlogits = target(call.outputs[0]);
  if (setting.reduction == LossReduction::none)
    args.factors = dloss.data<float>();
  else
    args.factor =
        dloss.item<float>() / loss_denominator(setting.reduction, setting.denominator,
                                               counted_labels(setting, labels, args.columns));
  for_ranges(context, args.rows, args.columns * 16, [&](std::size_t begin, std::size_t end) {
    context.kernels().loss.cross_entropy_backward(some_rows(args, begin, end));
  });
}

inline void cross_entropy_gradient(const GradientCall& call);

inline OperatorSamples cross_entropy_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& logits, const CrossEntropySetting& setting,
                       std::vector<double> labels, std::vector<std::size_t> lengths) {
    const double error = static_cast<double>(logits.elements() + 32) * 0x1p-24;
    result.samples.push_back(
        {.name = to_string(logits),
         .inputs = {{.shape = logits, .low = -3, .high = 3},
                    {.shape = Shape{labels.size()}, .dtype = DType::int64, .values = labels}},
         .attributes = setting,
         .lengths = std::move(lengths),
         .error = error,
         .gradient_error = error});
  };
  add({5, 3}, {}, {0, 2, 1, 1, 0}, {});
  add({5, 3}, {.reduction = LossReduction::sum}, {0, -100, 1, 1, 0}, {2, 3});
  add({4, 37}, {.label_smoothing = 0.1f, .ignore_index = 7}, {0, 36, 7, 12}, {});
  add({3, 2}, {.reduction = LossReduction::none, .label_smoothing = 0.2f}, {1, 0, 1}, {});
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<CrossEntropySetting>();
    const std::size_t columns = inputs[0].shape.columns();
    const double smoothing = static_cast<double>(setting.label_smoothing);
    ReferenceTensor losses{Shape{inputs[0].shape.rows()}, {}};
    double counted = 0;
    for (std::size_t row = 0; row < losses.shape[0]; ++row) {
      const double* x = &inputs[0].values[row * columns];
      const auto label = static_cast<std::int64_t>(inputs[1].values[row]);
      double sum = 0, mean = 0;
      for (std::size_t c = 0; c < columns; ++c) {
        sum += std::exp(x[c]);
        mean += x[c] / static_cast<double>(columns);
      }
      const bool counts = label != setting.ignore_index;
      counted += counts ? 1 : 0;
      losses.values.push_back(counts ? (1 - smoothing) * (std::log(sum) - x[label]) +
                                           smoothing * (std::log(sum) - mean)
                                     : 0);
    }
    if (setting.reduction == LossReduction::none) return std::vector<ReferenceTensor>{losses};
    return std::vector<ReferenceTensor>{
        {Shape{}, {reduced_loss(losses, setting.reduction, counted)}}};
  };
  return result;
}

}  // namespace detail

namespace ops {

inline constexpr Operator cross_entropy_backward{.name = "cross_entropy backward",
                                                 .min_inputs = 4,
                                                 .max_inputs = 4,
                                                 .shape = &detail::cross_entropy_backward_shape,
                                                 .host = &detail::cross_entropy_backward_host};

inline constexpr Operator cross_entropy{
    .name = "cross_entropy",
    .min_inputs = 2,
    .max_inputs = 2,
    .outputs = 2,
    .keeps_inputs = 3,
    .keeps_outputs = 2,
    .shape = &detail::cross_entropy_shape,
    .host = &detail::cross_entropy_host,
    .gradient = &detail::cross_entropy_gradient,
    .samples = SOMA_BUILT_IN_SAMPLES(detail::cross_entropy_samples)};

}  // namespace ops

inline void detail::cross_entropy_gradient(const GradientCall& call) {
  call.input_gradients[0].values =
      run(call.context, ops::cross_entropy_backward, call.attributes,
          {call.inputs[0], call.inputs[1], call.outputs[1], call.output_gradients[0]},
          call.sequences)[0];
}

}  // namespace SOMA_NAMESPACE
