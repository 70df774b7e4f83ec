#pragma once
// pad: surrounds x with elements of one value, before and behind its last dimensions (at most
// four).

#include <soma/ops/choose/elements.hpp>
#include <soma/ops/choose/settings.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/samples.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// A setting covers the last dimensions: entry i belongs to the dimension that `most` - 1 - i others
// follow.
inline Shape padded_shape(const Shape& x, const PadSetting& setting) {
  Shape shape = x;
  for (std::size_t i = 0; i < PadSetting::most; ++i) {
    const std::size_t before = setting.before[i], behind = setting.behind[i];
    if (before == 0 && behind == 0) continue;
    if (x.rank() + i < PadSetting::most)
      fail(error_id::tensor_rank, "pad", "x", to_string(x), "a dimension for each that is padded");
    const std::size_t dimension = x.rank() + i - PadSetting::most;
    shape =
        shape.with(dimension, checked_add(x[dimension], checked_add(before, behind, "pad"), "pad"));
  }
  return shape;
}
// The part of a padded tensor that is x: a view.
inline Tensor inside_padding(const Tensor& y, const Shape& x, const PadSetting& setting) {
  Tensor inside = y;
  for (std::size_t i = 0; i < PadSetting::most; ++i) {
    if (x.rank() + i < PadSetting::most) continue;
    const std::size_t dimension = x.rank() + i - PadSetting::most;
    inside = inside.slice(dimension, setting.before[i], setting.before[i] + x[dimension]);
  }
  return inside;
}

inline void pad_shape(const ShapeCall& call) {
  check_floating("pad", "x", call.inputs[0]);
  call.outputs[0] = {padded_shape(call.inputs[0].shape(), call.attributes.as<PadSetting>()),
                     call.inputs[0].dtype()};
}
inline void pad_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<PadSetting>();
  const Tensor &x = call.inputs[0], &y = call.outputs[0];
  if (y.elements() == 0) return;
  const Tensor value =
      in_type(call.context, Tensor::scalar(call.context, setting.value), y.dtype());
  with_element_width(y.dtype(), [&](auto width) {
    using T = decltype(width);
    std::fill_n(mutable_codes<T>(y), y.elements(), *codes<T>(value));
  });
  copy(x, inside_padding(y, x.shape(), setting));
}
inline void pad_gradient(const GradientCall& call) {
  call.input_gradients[0].values = inside_padding(call.output_gradients[0], call.inputs[0].shape(),
                                                  call.attributes.as<PadSetting>());
}

inline OperatorSamples pad_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& x, const PadSetting& setting) {
    result.samples.push_back({.name = to_string(x),
                              .inputs = {{.shape = x}},
                              .attributes = setting,
                              .lengths = {},
                              .error = 0,
                              .gradient_error = 2 * 0x1p-24});
  };
  add({5}, {{0, 0, 0, 2}, {0, 0, 0, 3}, 0.5f});
  add({3, 4}, {{0, 0, 1, 0}, {0, 0, 0, 2}, -2});
  add({2, 3, 4, 2}, {{1, 0, 2, 1}, {0, 2, 0, 1}, 0});
  add({0, 3}, {{0, 0, 1, 0}, {0, 0, 0, 1}, 1});
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<PadSetting>();
    const Shape &x = inputs[0].shape, shape = padded_shape(x, setting);
    const Strides strides = inputs[0].shape.strides();
    ReferenceTensor y{shape, {}};
    for (std::size_t i = 0; i < shape.elements(); ++i) {
      std::size_t rest = i, from = 0;
      bool inside = true;
      for (std::size_t d = shape.rank(); d-- > 0; rest /= shape[d]) {
        const std::size_t entry = d + PadSetting::most - x.rank(), at = rest % shape[d];
        const bool own = at >= setting.before[entry] && at < setting.before[entry] + x[d];
        inside = inside && own;
        if (own) from += (at - setting.before[entry]) * strides[d];
      }
      y.values.push_back(inside ? inputs[0].values[from] : static_cast<double>(setting.value));
    }
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

}  // namespace detail

namespace ops {

inline constexpr Operator pad{.name = "pad",
                              .shape = &detail::pad_shape,
                              .host = &detail::pad_host,
                              .gradient = &detail::pad_gradient,
                              .samples = SOMA_BUILT_IN_SAMPLES(detail::pad_samples)};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
