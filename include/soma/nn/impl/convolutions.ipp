#pragma once
// The functions of convolutions.hpp.

#include <soma/nn/convolutions.hpp>

#include <soma/autograd/choosing.hpp>
#include <soma/autograd/functions.hpp>
#include <soma/base/record.hpp>
#include <soma/nn/initial.hpp>
#include <soma/nn/product_site.hpp>
#include <soma/nn/scope.hpp>
#include <soma/ops/fields.hpp>
#include <soma/ops/image/settings.hpp>
#include <soma/ops/product_formats.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::nn::detail {

// A signal as an image with one row.
SOMA_INLINE Var image_of(std::string_view operation, Tape& tape, const Var& x) {
  const Shape& shape = x.shape();
  if (shape.rank() != 3)
    fail(error_id::tensor_rank, operation, "x", to_string(shape), "[N, channels, length]");
  return reshape(tape, x, Shape{shape[0], shape[1], 1, shape[2]});
}

SOMA_INLINE Var signal_of(Tape& tape, const Var& y) {
  return reshape(tape, y, Shape{y.shape()[0], y.shape()[1], y.shape()[3]});
}

SOMA_INLINE void describe_steps(Record& record, const ConvolutionSetting& steps) {
  record.set("stride_height", std::uint64_t{steps.stride_height});
  record.set("stride_width", std::uint64_t{steps.stride_width});
  record.set("pad_height", std::uint64_t{steps.pad_height});
  record.set("pad_width", std::uint64_t{steps.pad_width});
  describe_reach(record, steps);
}

SOMA_INLINE ConvolutionSetting steps_of(std::size_t kernel, const Conv1dOptions& options) {
  ConvolutionSetting steps{.stride_width = options.stride,
                           .pad_width = options.pad,
                           .dilation_width = static_cast<std::uint32_t>(options.dilation),
                           .groups = static_cast<std::uint32_t>(options.groups)};
  if (options.pad_behind) steps.pad_width_behind = static_cast<std::uint32_t>(*options.pad_behind);
  if (!options.causal) return steps;
  if (options.pad != 0 || options.pad_behind)
    fail(error_id::operator_value, "Conv1d", "pad",
         std::to_string(options.pad) + ", behind: " +
             (options.pad_behind ? std::to_string(*options.pad_behind) : "as before"),
         "no padding of its own beside causal");
  steps.pad_width =
      checked_multiply((std::max)(kernel, std::size_t{1}) - 1, options.dilation, "Conv1d");
  steps.pad_width_behind = 0;
  return steps;
}

}  // namespace SOMA_NAMESPACE::nn::detail

namespace SOMA_NAMESPACE::nn {

SOMA_INLINE Var convolution_transpose_at(const ProductSite& site, Tape& tape, const Var& x,
                                         const Var& weight, const Var& bias,
                                         const TransposedSetting& setting) {
  LinearFormats* formats = site.formats(tape, x, weight, true);
  if (formats == nullptr) return conv_transpose2d(tape, x, weight, bias, setting);
  const Var y = tape.apply(*tape.operators().quantized_convolution,
                           QuantizedConvolutionSetting{.steps = setting,
                                                       .transposed = true,
                                                       .formats = formats,
                                                       .step = tape.options().step,
                                                       .training = tape.options().training,
                                                       .record = tape.recording()},
                           {x, weight});
  if (!bias.defined()) return y;
  return add(tape, y, reshape(tape, bias, Shape{bias.shape()[0], 1, 1}));
}

SOMA_INLINE void fields(FieldVisitor& visitor, Conv1dOptions& options) {
  visitor.option("stride", options.stride, NumberRange::at_least(1));
  visitor.option("pad", options.pad);
  visitor.option("pad_behind", options.pad_behind, NumberRange::within(0, as_before - 1));
  visitor.option("dilation", options.dilation, NumberRange::within(1, as_before));
  visitor.option("groups", options.groups, NumberRange::within(1, as_before));
}

SOMA_INLINE Conv1d::Conv1d(const Scope& scope, std::size_t in, std::size_t out, std::size_t kernel,
                           const Conv1dOptions& options)
    : site(scope, options.edge) {
  check_ranges("Conv1d", options);
  setting = detail::steps_of(kernel, options);
  const Shape images = detail::convolution_weight("Conv1d", in, out, 1, kernel, setting);
  const Shape shape{images[0], images[1], kernel};
  const float bound = detail::root_of_ratio(1, fans(shape).in);  // lecun_uniform
  weight = initial_parameter(scope, shape, {Initial::uniform(bound, scope.draw("weight"))});
  if (options.bias)
    bias = initial_parameter(scope, Shape{out}, {Initial::uniform(bound, scope.draw("bias"))});
}

SOMA_INLINE Var Conv1d::operator()(Tape& tape, const Var& x) const {
  const auto within = tape.within(site.path());
  return detail::signal_of(tape,
                           convolution_at(site, tape, detail::image_of("Conv1d", tape, x),
                                          detail::image_of("Conv1d", tape, weight), bias, setting));
}

SOMA_INLINE void Conv1d::collect(Collector& collector) const {
  collector.add("weight", weight, ParameterRole::weight);
  collector.add("bias", bias, ParameterRole::bias);
}

SOMA_INLINE void Conv1d::describe(Record& record) const { detail::describe_steps(record, setting); }

SOMA_INLINE void fields(FieldVisitor& visitor, ConvTranspose2dOptions& options) {
  visitor.option("setting", options.setting);
}

SOMA_INLINE ConvTranspose2d::ConvTranspose2d(const Scope& scope, std::size_t in, std::size_t out,
                                             std::size_t kernel,
                                             const ConvTranspose2dOptions& options)
    : setting(options.setting), site(scope, options.edge) {
  check_ranges("ConvTranspose2d", options);
  const Shape shape =
      detail::convolution_weight("ConvTranspose2d", out, in, kernel, kernel, setting.steps);
  const float bound = detail::root_of_ratio(1, fans(shape).in);  // PyTorch's fans
  weight = initial_parameter(scope, shape, {Initial::uniform(bound, scope.draw("weight"))});
  if (options.bias)
    bias = initial_parameter(scope, Shape{out}, {Initial::uniform(bound, scope.draw("bias"))});
}

SOMA_INLINE Var ConvTranspose2d::operator()(Tape& tape, const Var& x) const {
  const auto within = tape.within(site.path());
  return convolution_transpose_at(site, tape, x, weight, bias, setting);
}

SOMA_INLINE void ConvTranspose2d::collect(Collector& collector) const {
  collector.add("weight", weight, ParameterRole::weight);
  collector.add("bias", bias, ParameterRole::bias);
}

SOMA_INLINE void ConvTranspose2d::describe(Record& record) const {
  detail::describe_steps(record, setting.steps);
  record.set("extra_height", std::uint64_t{setting.extra_height});
  record.set("extra_width", std::uint64_t{setting.extra_width});
}

SOMA_INLINE void fields(FieldVisitor& visitor, ConvTranspose1dOptions& options) {
  visitor.option("stride", options.stride, NumberRange::at_least(1));
  visitor.option("pad", options.pad);
  visitor.option("extra", options.extra);
  visitor.option("dilation", options.dilation, NumberRange::within(1, as_before));
  visitor.option("groups", options.groups, NumberRange::within(1, as_before));
}

SOMA_INLINE ConvTranspose1d::ConvTranspose1d(const Scope& scope, std::size_t in, std::size_t out,
                                             std::size_t kernel,
                                             const ConvTranspose1dOptions& options)
    : site(scope, options.edge) {
  check_ranges("ConvTranspose1d", options);
  setting = {.steps = {.stride_width = options.stride,
                       .pad_width = options.pad,
                       .dilation_width = static_cast<std::uint32_t>(options.dilation),
                       .groups = static_cast<std::uint32_t>(options.groups)},
             .extra_width = options.extra};
  const Shape images =
      detail::convolution_weight("ConvTranspose1d", out, in, 1, kernel, setting.steps);
  const Shape shape{images[0], images[1], kernel};
  const float bound = detail::root_of_ratio(1, fans(shape).in);  // PyTorch's fans
  weight = initial_parameter(scope, shape, {Initial::uniform(bound, scope.draw("weight"))});
  if (options.bias)
    bias = initial_parameter(scope, Shape{out}, {Initial::uniform(bound, scope.draw("bias"))});
}

SOMA_INLINE Var ConvTranspose1d::operator()(Tape& tape, const Var& x) const {
  const auto within = tape.within(site.path());
  return detail::signal_of(
      tape,
      convolution_transpose_at(site, tape, detail::image_of("ConvTranspose1d", tape, x),
                               detail::image_of("ConvTranspose1d", tape, weight), bias, setting));
}

SOMA_INLINE void ConvTranspose1d::collect(Collector& collector) const {
  collector.add("weight", weight, ParameterRole::weight);
  collector.add("bias", bias, ParameterRole::bias);
}

SOMA_INLINE void ConvTranspose1d::describe(Record& record) const {
  detail::describe_steps(record, setting.steps);
  record.set("extra_width", std::uint64_t{setting.extra_width});
}

SOMA_INLINE Var AveragePool2d::operator()(Tape& tape, const Var& x) const {
  return average_pool2d(tape, x, setting);
}

SOMA_INLINE void AveragePool2d::describe(Record& record) const {
  detail::describe_steps(record, setting.steps);
  record.set("kernel_height", std::uint64_t{setting.kernel_height});
  record.set("kernel_width", std::uint64_t{setting.kernel_width});
  record.set("count_padding", setting.count_padding);
  record.set("out_height", std::uint64_t{setting.out_height});
  record.set("out_width", std::uint64_t{setting.out_width});
}

SOMA_INLINE Var AdaptiveAveragePool2d::operator()(Tape& tape, const Var& x) const {
  return adaptive_average_pool2d(tape, x, height, width);
}

SOMA_INLINE void AdaptiveAveragePool2d::describe(Record& record) const {
  record.set("height", std::uint64_t{height});
  record.set("width", std::uint64_t{width});
}

SOMA_INLINE Var Flatten::operator()(Tape& tape, const Var& x) const {
  const Shape& shape = x.shape();
  std::size_t width = 1;
  for (std::size_t i = 1; i < shape.rank(); ++i) width *= shape[i];
  return reshape(tape, x, Shape{shape[0], width});
}

}  // namespace SOMA_NAMESPACE::nn
