#pragma once
// Cross entropy of logits [..., classes] with class labels [...]: the negative log likelihood of
// the label under softmax(logits), with label smoothing (arXiv 1512.00567).

#include <soma/ops/loss/loss.hpp>
#include <soma/ops/rows/embedding.hpp>
#include <soma/ops/run.hpp>
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
        ordered_sum(context, losses, logits.shape().without(logits.shape().rank() - 1),
                    call.sequences) /
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

}  // namespace detail

namespace ops {

inline constexpr Operator cross_entropy_backward{.name = "cross_entropy backward",
                                                 .min_inputs = 4,
                                                 .max_inputs = 4,
                                                 .shape = &detail::cross_entropy_backward_shape,
                                                 .host = &detail::cross_entropy_backward_host};

inline constexpr Operator cross_entropy{.name = "cross_entropy",
                                        .min_inputs = 2,
                                        .max_inputs = 2,
                                        .outputs = 2,
                                        .keeps_inputs = 3,
                                        .keeps_outputs = 2,
                                        .shape = &detail::cross_entropy_shape,
                                        .host = &detail::cross_entropy_host,
                                        .gradient = &detail::cross_entropy_gradient,
                                        .wide_gradients = true,
                                        .built_in_samples = true};

}  // namespace ops

inline void detail::cross_entropy_gradient(const GradientCall& call) {
  call.input_gradients[0].values =
      run(call.context, ops::cross_entropy_backward, call.attributes,
          {call.inputs[0], call.inputs[1], call.outputs[1], call.output_gradients[0]},
          call.sequences)[0];
}

}  // namespace SOMA_NAMESPACE
