#pragma once
// The rules of generate.hpp for operators on images.

#include <soma/testing/between/generate.hpp>

#include <soma/ops/image/settings.hpp>
#include <soma/ops/settings.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::testing::detail {

SOMA_INLINE ConvolutionSetting window_steps(Maker& maker) {
  return {1 + maker.choice().below(2), 1 + maker.choice().below(2), maker.choice().below(2),
          maker.choice().below(2)};
}

// Strides and paddings, and sometimes dilation, paddings behind, and groups of channels.
SOMA_INLINE ConvolutionSetting convolution_steps(Maker& maker, std::size_t channels) {
  ConvolutionSetting setting = window_steps(maker);
  if (maker.choice().chance(25)) {
    setting.dilation_height = 1 + static_cast<std::uint32_t>(maker.choice().below(2));
    setting.dilation_width = 1 + static_cast<std::uint32_t>(maker.choice().below(3));
  }
  if (maker.choice().chance(25)) {
    setting.pad_height_behind = static_cast<std::uint32_t>(maker.choice().below(4));
    setting.pad_width_behind = static_cast<std::uint32_t>(maker.choice().below(4));
  }
  const std::size_t groups = maker.choice().chance(50) ? channels : 2;
  if (maker.choice().chance(40) && channels != 0 && channels % groups == 0)
    setting.groups = static_cast<std::uint32_t>(groups);
  return setting;
}

SOMA_INLINE bool convolution_rule(Maker& maker, const Known& x, Call& call) {
  const Shape& shape = x.shape();
  const ConvolutionSetting setting = convolution_steps(maker, shape[1]);
  const std::size_t height = 1 + maker.choice().below(3), width = 1 + maker.choice().below(3);
  const std::size_t out = (1 + maker.choice().below(4)) * setting.groups;
  const auto fits = [](std::size_t size, std::size_t before, std::uint32_t behind,
                       std::size_t reach) {
    return size != 0 && reach <= size + before + (behind == as_before ? before : behind);
  };
  if (!fits(shape[2], setting.pad_height, setting.pad_height_behind,
            (height - 1) * setting.dilation_height + 1) ||
      !fits(shape[3], setting.pad_width, setting.pad_width_behind,
            (width - 1) * setting.dilation_width + 1) ||
      shape.elements() * out * height * width > 40 * most_elements || shape[1] == 0)
    return false;
  call.attributes = setting;
  call.inputs.push_back(maker.leaf(Shape{out, shape[1] / setting.groups, height, width}));
  call.inputs.push_back(maker.choice().chance(50) ? maker.leaf(Shape{out}) : Ref{});
  return true;
}

SOMA_INLINE bool convolution_transpose_rule(Maker& maker, const Known& x, Call& call) {
  const Shape& shape = x.shape();
  TransposedSetting setting{.steps = convolution_steps(maker, shape[1])};
  const std::size_t height = 1 + maker.choice().below(3), width = 1 + maker.choice().below(3);
  if (2 * setting.steps.pad_height >= height || 2 * setting.steps.pad_width >= width) return false;
  setting.steps.pad_height_behind = setting.steps.pad_width_behind = as_before;
  if (shape[1] == 0 || shape[2] == 0 || shape[3] == 0) return false;
  call.attributes = setting;
  call.inputs.push_back(maker.leaf(Shape{shape[1], 1 + maker.choice().below(3), height, width}));
  return true;
}

SOMA_INLINE bool resize_rule(Maker& maker, const Known& x, Call& call) {
  call.attributes = ResizeSetting{.height = 1 + maker.choice().below(6),
                                  .width = 1 + maker.choice().below(6),
                                  .bilinear = maker.choice().chance(60),
                                  .align_corners = maker.choice().chance(40)};
  return x.shape()[2] > 0 && x.shape()[3] > 0;
}

SOMA_INLINE bool pool_rule(Maker& maker, const Known& x, Call& call) {
  const Shape& shape = x.shape();
  if (shape[2] == 0 || shape[3] == 0) return false;
  if (call.name == "average_pool" && maker.choice().chance(40)) {
    call.attributes = AveragePoolSetting{.out_height = 1 + maker.choice().below(shape[2]),
                                         .out_width = 1 + maker.choice().below(shape[3])};
    return true;
  }
  const std::size_t height = 1 + maker.choice().below(3), width = 1 + maker.choice().below(3);
  ConvolutionSetting steps = window_steps(maker);
  steps.pad_height = (std::min)(steps.pad_height, height / 2);
  steps.pad_width = (std::min)(steps.pad_width, width / 2);
  if (height > shape[2] + 2 * steps.pad_height || width > shape[3] + 2 * steps.pad_width)
    return false;
  if (call.name == "max_pool")
    call.attributes = MaxPoolSetting{height, width, steps};
  else
    call.attributes = AveragePoolSetting{height, width, steps, maker.choice().chance(50)};
  return true;
}

}  // namespace SOMA_NAMESPACE::testing::detail
