#pragma once
// The gradients of a convolution. The image's gradient is also a convolution: of dy, over the
// output channels. With a stride, pixels that use the same positions of the kernel are computed
// together. The weight's gradient sums over pixels.

#include <soma/ops/image/convolution.hpp>
#include <soma/programs/image/convolution.hpp>
#include <soma/programs/image/image_tiles.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/support.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace SOMA_NAMESPACE::programs {

// For dx: the pixels whose distance from a window's start is `phase`, or `phase` plus a multiple of
// the stride, are computed together: they use every `step`-th position of the kernel, those whose
// pixel is at the same distance.
struct Phase {
  std::size_t pixel = 0;     // the first
  std::size_t position = 0;  // the first position of the kernel
  std::size_t step = 1;
  Extent extent{};

  static Phase of(std::size_t phase, const Extent& forward) {
    const auto pad = static_cast<std::size_t>(forward.pad);
    const std::size_t stride = forward.stride, common = std::gcd(stride, forward.dilation);
    Phase result;
    result.pixel = (phase + stride - pad % stride) % stride;
    result.step = stride / common;
    result.position = forward.kernel;
    for (std::size_t a = 0; a < (std::min)(forward.kernel, result.step); ++a)
      if (a * forward.dilation % stride == phase) result.position = a;
    const std::size_t outputs =
        result.pixel < forward.image ? piece_count(forward.image - result.pixel, stride) : 0;
    const std::size_t positions = piece_count(forward.kernel - result.position, result.step);
    // The first pixel is this many results behind its first position's.
    const std::ptrdiff_t ahead = (static_cast<std::ptrdiff_t>(result.pixel + pad) -
                                  static_cast<std::ptrdiff_t>(result.position * forward.dilation)) /
                                 static_cast<std::ptrdiff_t>(stride);
    const std::size_t dilation = forward.dilation / common;
    result.extent = {.image = forward.out,
                     .out = outputs,
                     .kernel = positions,
                     .stride = 1,
                     .pad = (static_cast<std::ptrdiff_t>(positions) - 1) *
                                static_cast<std::ptrdiff_t>(dilation) -
                            ahead,
                     .dilation = dilation};
    return result;
  }
};

inline void convolution_image_gradient(Core& core, const Window& window, const Tensor& weight,
                                       const Tensor& dy, const Tensor& dx) {
  const Extent height = height_of(window), width = width_of(window);
  for (std::size_t i = 0; i < height.stride; ++i)
    for (std::size_t j = 0; j < width.stride; ++j) {
      const Phase down = Phase::of(i, height), across = Phase::of(j, width);
      if (down.extent.out == 0 || across.extent.out == 0) continue;
      const Tensor part = weight.slice(2, down.position, to_end, down.step)
                              .slice(3, across.position, to_end, across.step);
      const Tensor to = dx.slice(2, down.pixel, to_end, height.stride)
                            .slice(3, across.pixel, to_end, width.stride);
      correlate(core, {.from = dy,
                       .weight = part,
                       .to = to,
                       .height = down.extent,
                       .width = across.extent,
                       .turned = false});
    }
}

// dW sums over pixels, so pixels of x and dy are transposed onto partitions.
inline void convolution_weight_gradient(Core& core, const Window& window, const Tensor& x,
                                        const Tensor& dy, const Tensor& dweight) {
  const Core::Scope scope(core);
  const Extent height = height_of(window), width = width_of(window);
  const std::size_t channels = x.size(1), outputs = dy.size(1);
  // The number of banks of PSUM: positions of the kernel are side by side in a bank, which all
  // channels of a block share.
  constexpr std::size_t banks = 4;
  const std::size_t bank = core.machine().matmul_moving_free;
  const std::size_t deepest = (std::min)(channels, lanes), most = (std::min)(outputs, lanes);
  const std::size_t in_bank = bank / deepest;
  const ConvolutionPlan plan(x.size(0), height, width, lanes, banks * in_bank);
  const std::size_t positions = plan.rows.positions * plan.columns.positions;
  const std::size_t pixels = plan.pixels(), row = (std::min)(in_bank, positions) * deepest;
  Patches patches(core, x, height, width, plan);
  Pair arrivals(core, DType::fp32, most, pixels),
      results(core, DType::fp32, most, positions * deepest);
  Pair turned_dy(core, DType::fp32, pixels, most), turned_x(core, DType::fp32, pixels, row);
  const Tile turning_dy = core.psum.tile(pixels, most), turning_x = core.psum.tile(pixels, row);
  HeapVector<Tile> sums(core.context().heap());
  for (std::size_t i = 0; i < piece_count(positions, in_bank); ++i)
    sums.push_back(core.psum.tile(most, row));

  const auto block = [&](const Interval& o, const Interval& c, const Interval& a,
                         const Interval& b) {
    const std::size_t here = a.size * b.size;
    bool begun = false;
    for_output_tiles(x.size(0), height, width, plan,
                     [&](const Interval& images, const Interval& rows, const Interval& columns) {
                       const std::size_t count = images.size * rows.size * columns.size;
                       const Tile arrival = arrivals.next(o.size, count);
                       core.dma.load(arrival.reshape({images.size, rows.size, columns.size}),
                                     hbm(dy)
                                         .rows(images.begin, images.end())
                                         .slice(1, o.begin, o.end())
                                         .slice(2, rows.begin, rows.end())
                                         .slice(3, columns.begin, columns.end())
                                         .swap(0, 1));
                       const Tile patch = patches.load(c, images, rows, columns, a, b);
                       const Tile turning = turning_dy.rows(0, count).columns(0, o.size);
                       const Tile by_pixel = turned_dy.next(count, o.size);
                       core.tensor.transpose(turning, arrival);
                       core.scalar.copy(by_pixel, turning);
                       for_pieces(here, in_bank, [&](std::size_t first, std::size_t some) {
                         const Tile unfolding = turning_x.rows(0, count).columns(0, some * c.size);
                         for (std::size_t p = first; p < first + some; ++p)
                           core.tensor.transpose(
                               unfolding.columns((p - first) * c.size, (p - first + 1) * c.size),
                               patches.at(patch, p / b.size, p % b.size, rows, columns));
                         const Tile unfolded = turned_x.next(count, some * c.size);
                         core.vector.copy(unfolded, unfolding);
                         core.tensor.matmul(
                             sums[first / in_bank].rows(0, o.size).columns(0, some * c.size),
                             by_pixel, unfolded, begun ? Accumulate::yes : Accumulate::no);
                       });
                       begun = true;
                     });
    const Tile result = results.next(o.size, c.size * here).reshape({c.size, here});
    for_pieces(here, in_bank, [&](std::size_t first, std::size_t some) {
      const Tile to = result.columns(first, first + some).swap(0, 1);
      if (begun)
        core.vector.copy(to, sums[first / in_bank].rows(0, o.size).columns(0, some * c.size));
      else
        core.vector.memset(to, 0);
    });
    core.dma.queue(store_queue)
        .store(hbm_target(dweight)
                   .rows(o.begin, o.end())
                   .slice(1, c.begin, c.end())
                   .slice(2, a.begin, a.end())
                   .slice(3, b.begin, b.end()),
               result);
  };
  for_pieces(outputs, lanes, [&](std::size_t o, std::size_t os) {
    for_pieces(channels, lanes, [&](std::size_t c, std::size_t cs) {
      for_pieces(height.kernel, plan.rows.positions, [&](std::size_t a, std::size_t as) {
        for_pieces(width.kernel, plan.columns.positions, [&](std::size_t b, std::size_t bs) {
          block({o, os}, {c, cs}, {a, as}, {b, bs});
        });
      });
    });
  });
}

// dbias: sums over images and pixels.
inline void convolution_bias_gradient(Core& core, const Tensor& dy, const Tensor& dbias) {
  const Core::Scope scope(core);
  const std::size_t images = dy.size(0), outputs = dy.size(1), pixels = dy.size(2) * dy.size(3);
  const std::size_t width = (std::min)((std::max)(pixels, std::size_t{1}), piece);
  const std::size_t together = (std::min)(piece / width, (std::max)(images, std::size_t{1}));
  const std::size_t most = (std::min)(outputs, lanes);
  Pair arrivals(core, DType::fp32, most, together * width);
  Pair totals(core, DType::fp32, most, 1);
  const Tile part = core.sbuf.tile(DType::fp32, most, 1);
  const Tensor flat = dy.reshape(Shape{images, outputs, pixels});
  for_pieces(outputs, lanes, [&](std::size_t o, std::size_t os) {
    const Tile total = totals.next(os, 1), sum = part.rows(0, os);
    core.vector.memset(total, 0);
    for_pieces(images, together, [&](std::size_t image, std::size_t count) {
      for_pieces(pixels, width, [&](std::size_t pixel, std::size_t size) {
        const Tile arrival = arrivals.next(os, count * size);
        core.dma.load(arrival, hbm(flat)
                                   .rows(image, image + count)
                                   .slice(1, o, o + os)
                                   .columns(pixel, pixel + size)
                                   .swap(0, 1));
        core.vector.tensor_reduce(sum, arrival, Alu::add)
            .tensor_tensor(total, total, sum, Alu::add);
      });
    });
    core.dma.queue(store_queue).store(hbm_target(dbias).columns(o, o + 1).with_rows(os, 1), total);
  });
}

inline void convolution_backward(Core& core, const OperatorCall& call) {
  const Tensor x = row_major(core, call.inputs[0]);
  const Tensor weight = row_major(core, call.inputs[1]);
  const Tensor dy = row_major(core, call.inputs[2]);
  const Tensor &dx = call.outputs[0], &dweight = call.outputs[1], &dbias = call.outputs[2];
  const auto& setting = call.attributes.as<ConvolutionSetting>();
  const Window window = soma::detail::convolution_window(x, weight, setting);
  for (std::size_t group = 0; group < setting.groups; ++group) {
    const auto of = [&](const Tensor& tensor, std::size_t dimension) {
      return of_group(tensor, dimension, group, setting.groups);
    };
    const Tensor own_dy = of(dy, 1), own_weight = of(weight, 0);
    if (dx.elements() != 0) convolution_image_gradient(core, window, own_weight, own_dy, of(dx, 1));
    if (dweight.elements() != 0)
      convolution_weight_gradient(core, window, of(x, 1), own_dy, of(dweight, 0));
  }
  if (dbias.elements() != 0) convolution_bias_gradient(core, dy, dbias);
}

}  // namespace SOMA_NAMESPACE::programs
