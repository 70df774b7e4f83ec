#pragma once
// resize: images [N, C, H, W] of any floating type in another size. Nearest: pixel i of n is pixel
// floor(i H / n), by whole numbers. Bilinear: the weighted mean of the four pixels around the place
// of a result's centre, or of its corners (ResizeSetting::align_corners).

#include <soma/ops/image/settings.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/support.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

namespace SOMA_NAMESPACE {

namespace detail {

// The two pixels that a result reads along one dimension, and the share of the second one.
struct ResizeTap {
  std::size_t first, second;
  float share;
};

inline ResizeTap resize_tap(std::size_t size, std::size_t out, std::size_t index,
                            const ResizeSetting& setting) {
  if (!setting.bilinear) {
    const std::size_t nearest = even_border(size, out, index);
    return {nearest, nearest, 0};
  }
  const auto from = static_cast<double>(size), to = static_cast<double>(out);
  double place = 0;
  if (!setting.align_corners)
    place = (std::max)(0.0, (static_cast<double>(index) + 0.5) * from / to - 0.5);
  else if (out > 1)
    place = static_cast<double>(index) * (from - 1) / (to - 1);
  const std::size_t first = (std::min)(static_cast<std::size_t>(place), size - 1);
  return {first, (std::min)(first + 1, size - 1),
          static_cast<float>(place - static_cast<double>(first))};
}

inline void resize_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<ResizeSetting>();
  const Tensor& x = call.inputs[0];
  check_rank("resize", "x", x, 4);
  check_floating("resize", "x", x);
  if (setting.height == 0 || setting.width == 0)
    fail(error_id::operator_value, "resize", "height, width",
         std::to_string(setting.height) + ", " + std::to_string(setting.width), "at least 1");
  if (x.size(2) == 0 || x.size(3) == 0)
    fail(error_id::tensor_shape, "resize", "x", x.describe(), "images of one pixel at least");
  call.outputs[0] = {x.shape().with(2, setting.height).with(3, setting.width), x.dtype()};
}

// Calls each(index of the result's pixel, index of a pixel, its weight) for a plane, in ascending
// order of the result; pixels without weight are left out.
template <class Each>
void for_resized(std::size_t width, std::span<const ResizeTap> down,
                 std::span<const ResizeTap> across, const Each& each) {
  std::size_t at = 0;
  for (const ResizeTap& row : down)
    for (const ResizeTap& column : across) {
      const float top = 1 - row.share, left = 1 - column.share;
      each(at, row.first * width + column.first, top * left);
      if (column.share != 0) each(at, row.first * width + column.second, top * column.share);
      if (row.share != 0) {
        each(at, row.second * width + column.first, row.share * left);
        if (column.share != 0)
          each(at, row.second * width + column.second, row.share * column.share);
      }
      ++at;
    }
}

// Calls plane(taps down, taps across, number of the plane) for each image and channel.
template <class Plane>
void for_resized_planes(Context& context, const Shape& x, const ResizeSetting& setting,
                        const Plane& plane) {
  HeapVector<ResizeTap> down(context.heap()), across(context.heap());
  down.resize(setting.height);
  across.resize(setting.width);
  for (std::size_t i = 0; i < down.size(); ++i)
    down[i] = resize_tap(x[2], setting.height, i, setting);
  for (std::size_t i = 0; i < across.size(); ++i)
    across[i] = resize_tap(x[3], setting.width, i, setting);
  const std::span<const ResizeTap> rows(down.data(), down.size()),
      columns(across.data(), across.size());
  for_ranges(context, x[0] * x[1], 4 * setting.height * setting.width,
             [&](std::size_t begin, std::size_t end) {
               for (std::size_t i = begin; i < end; ++i) plane(rows, columns, i);
             });
}

inline void resize_plain(const OperatorCall& call) {
  const auto& setting = call.attributes.as<ResizeSetting>();
  const Shape& shape = call.inputs[0].shape();
  const std::size_t image = shape[2] * shape[3], result = setting.height * setting.width;
  const float* x = call.inputs[0].data<float>();
  float* y = call.outputs[0].mutable_data<float>();
  for_resized_planes(
      call.context, shape, setting,
      [&](std::span<const ResizeTap> down, std::span<const ResizeTap> across, std::size_t plane) {
        const float* from = x + plane * image;
        float* to = y + plane * result;
        std::fill_n(to, result, 0.0f);
        for_resized(shape[3], down, across, [&](std::size_t at, std::size_t pixel, float weight) {
          to[at] += weight * from[pixel];
        });
      });
}
inline void resize_host(const OperatorCall& call) { with_plain_tensors(call, 0, resize_plain); }

// Each pixel gets its shares of the gradients, in ascending order of the result.
inline void resize_gradient(const GradientCall& call) {
  with_plain_tensors(call, [](const GradientCall& plain_call) {
    const auto& setting = plain_call.attributes.as<ResizeSetting>();
    const Shape& shape = plain_call.inputs[0].shape();
    const std::size_t image = shape[2] * shape[3], result = setting.height * setting.width;
    const Tensor dx = Tensor::zeros(plain_call.context, shape);
    const Tensor dy = contiguous(plain_call.context, plain_call.output_gradients[0]);
    for_resized_planes(
        plain_call.context, shape, setting,
        [&](std::span<const ResizeTap> down, std::span<const ResizeTap> across, std::size_t plane) {
          float* to = dx.mutable_data<float>() + plane * image;
          const float* from = dy.data<float>() + plane * result;
          for_resized(shape[3], down, across, [&](std::size_t at, std::size_t pixel, float weight) {
            to[pixel] += weight * from[at];
          });
        });
    plain_call.input_gradients[0].values = dx;
  });
}

}  // namespace detail

namespace ops {

inline constexpr Operator resize{.name = "resize",
                                 .shape = &detail::resize_shape,
                                 .host = &detail::resize_host,
                                 .gradient = &detail::resize_gradient,
                                 .wide_gradients = true,
                                 .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
