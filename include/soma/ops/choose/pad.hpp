#pragma once
// pad: surrounds x with elements of one value, before and behind its last dimensions (at most
// four).

#include <soma/ops/choose/elements.hpp>
#include <soma/ops/choose/settings.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/run.hpp>

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

}  // namespace detail

namespace ops {

inline constexpr Operator pad{.name = "pad",
                              .shape = &detail::pad_shape,
                              .host = &detail::pad_host,
                              .gradient = &detail::pad_gradient,
                              .wide_gradients = true,
                              .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
