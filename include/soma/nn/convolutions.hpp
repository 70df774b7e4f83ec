#pragma once
// Convolutions and pools beyond Conv2d: Conv1d, ConvTranspose2d, average pools.

#include <soma/autograd/choosing.hpp>
#include <soma/autograd/functions.hpp>
#include <soma/base/record.hpp>
#include <soma/nn/initial.hpp>
#include <soma/nn/scope.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace soma::nn {

namespace detail {

inline void describe_steps(Record& record, const ConvolutionSetting& steps) {
  record.set("stride_height", std::uint64_t{steps.stride_height});
  record.set("stride_width", std::uint64_t{steps.stride_width});
  record.set("pad_height", std::uint64_t{steps.pad_height});
  record.set("pad_width", std::uint64_t{steps.pad_width});
}

}  // namespace detail

struct Conv1dOptions {
  std::size_t stride = 1, pad = 0;  // zeros on each side
  bool bias = true;
};

// Signals [N, in, L] to [N, out, L'] with L' = (L + 2 pad - kernel) / stride + 1, computed as
// images with one row.
class Conv1d {
 public:
  Conv1d() = default;
  Conv1d(const Scope& scope, std::size_t in, std::size_t out, std::size_t kernel,
         const Conv1dOptions& options = {})
      : setting{.stride_width = options.stride, .pad_width = options.pad}, path(scope) {
    const Shape shape{out, in, kernel};
    const float bound = detail::root_of_ratio(1, fans(shape).in);  // lecun_uniform
    weight = initial_parameter(scope, shape, {Initial::uniform(bound, scope.draw("weight"))});
    if (options.bias)
      bias = initial_parameter(scope, Shape{out}, {Initial::uniform(bound, scope.draw("bias"))});
  }
  // Errors tensor.rank, and those of conv2d().
  Var operator()(Tape& tape, const Var& x) const {
    const auto within = tape.within(path.view());
    const Shape &signal = x.shape(), &kernel = weight.shape();
    if (signal.rank() != 3)
      fail(error_id::tensor_rank, "Conv1d", "x", to_string(signal), "[N, channels, length]");
    const Var y =
        conv2d(tape, reshape(tape, x, Shape{signal[0], signal[1], 1, signal[2]}),
               reshape(tape, weight, Shape{kernel[0], kernel[1], 1, kernel[2]}), bias, setting);
    return reshape(tape, y, Shape{y.shape()[0], y.shape()[1], y.shape()[3]});
  }
  void collect(Collector& collector) const {
    collector.add("weight", weight, ParameterRole::weight);
    collector.add("bias", bias, ParameterRole::bias);
  }
  void describe(Record& record) const { detail::describe_steps(record, setting); }

  Var weight, bias;  // [out, in, kernel], [out]
  ConvolutionSetting setting;
  LayerPath path{};
};

struct ConvTranspose2dOptions {
  TransposedSetting setting{};
  bool bias = true;
};

// Images [N, in, H, W] to [N, out, H', W'] with H' = (H - 1) stride - 2 pad + kernel + extra.
class ConvTranspose2d {
 public:
  ConvTranspose2d() = default;
  ConvTranspose2d(const Scope& scope, std::size_t in, std::size_t out, std::size_t kernel,
                  const ConvTranspose2dOptions& options = {})
      : setting(options.setting), path(scope) {
    const Shape shape{in, out, kernel, kernel};
    const float bound = detail::root_of_ratio(1, fans(shape).in);  // PyTorch's fans
    weight = initial_parameter(scope, shape, {Initial::uniform(bound, scope.draw("weight"))});
    if (options.bias)
      bias = initial_parameter(scope, Shape{out}, {Initial::uniform(bound, scope.draw("bias"))});
  }
  Var operator()(Tape& tape, const Var& x) const {
    const auto within = tape.within(path.view());
    return conv_transpose2d(tape, x, weight, bias, setting);
  }
  void collect(Collector& collector) const {
    collector.add("weight", weight, ParameterRole::weight);
    collector.add("bias", bias, ParameterRole::bias);
  }
  void describe(Record& record) const {
    detail::describe_steps(record, setting.steps);
    record.set("extra_height", std::uint64_t{setting.extra_height});
    record.set("extra_width", std::uint64_t{setting.extra_width});
  }

  Var weight, bias;  // [in, out, kernel, kernel], [out]
  TransposedSetting setting;
  LayerPath path{};
};

// Images [N, C, H, W] to the means of windows.
class AveragePool2d {
 public:
  explicit AveragePool2d(const AveragePoolSetting& pool = {}) : setting(pool) {}
  Var operator()(Tape& tape, const Var& x) const { return average_pool2d(tape, x, setting); }
  void collect(Collector&) const {}
  void describe(Record& record) const {
    detail::describe_steps(record, setting.steps);
    record.set("kernel_height", std::uint64_t{setting.kernel_height});
    record.set("kernel_width", std::uint64_t{setting.kernel_width});
    record.set("count_padding", setting.count_padding);
    record.set("out_height", std::uint64_t{setting.out_height});
    record.set("out_width", std::uint64_t{setting.out_width});
  }

  AveragePoolSetting setting;
};
// Images to height x width means; the windows cover each image evenly.
class AdaptiveAveragePool2d {
 public:
  AdaptiveAveragePool2d(std::size_t out_height, std::size_t out_width)
      : height(out_height), width(out_width) {}
  Var operator()(Tape& tape, const Var& x) const {
    return adaptive_average_pool2d(tape, x, height, width);
  }
  void collect(Collector&) const {}
  void describe(Record& record) const {
    record.set("height", std::uint64_t{height});
    record.set("width", std::uint64_t{width});
  }

  std::size_t height, width;
};

// [N, ...] to [N, product of the other sizes].
class Flatten {
 public:
  Var operator()(Tape& tape, const Var& x) const {
    const Shape& shape = x.shape();
    std::size_t width = 1;
    for (std::size_t i = 1; i < shape.rank(); ++i) width *= shape[i];
    return reshape(tape, x, Shape{shape[0], width});
  }
  void collect(Collector&) const {}
};

}  // namespace soma::nn
