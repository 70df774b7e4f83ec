#pragma once
// 2-D convolution (cross-correlation, as everywhere in the field): x [N, C, H, W], weight
// [O, C / groups, kernel height, kernel width], bias [O]; y [N, O, H', W'] with
// H' = (H + padding - (kernel - 1) dilation - 1) / stride + 1. Each image is unfolded into columns,
// fp32, of which each group has a matrix product. Groups of one channel are computed directly. Any
// floating types; y has x's, and so has its gradient; that of weight and bias is fp32.

#include <soma/ops/element/binary.hpp>
#include <soma/ops/image/widened.hpp>
#include <soma/ops/rows/reduce.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// Windows in one direction. Error tensor.shape: a kernel larger than the padded image.
inline std::size_t window_count(std::string_view operation, std::size_t size, std::size_t before,
                                std::size_t behind, std::size_t kernel, std::size_t dilation,
                                std::size_t stride) {
  const std::size_t padded = checked_add(checked_add(size, before, operation), behind, operation);
  const std::size_t reach = kernel == 0
                                ? 0
                                : checked_add(checked_multiply(kernel - 1, dilation, operation),
                                              std::size_t{1}, operation);
  if (kernel == 0 || reach > padded)
    fail(error_id::tensor_shape, operation, "kernel",
         std::to_string(kernel) + " at a dilation of " + std::to_string(dilation),
         "1 to the padded size, " + std::to_string(padded));
  return (padded - reach) / stride + 1;
}

inline std::size_t padding_behind(std::uint32_t behind, std::size_t before) {
  return behind == as_before ? before : behind;
}

// Window of a convolution or a pool over x. Error tensor.shape: no pixels, or as window_count().
inline Window window_of(std::string_view operation, const Shape& x, std::size_t kernel_height,
                        std::size_t kernel_width, const ConvolutionSetting& setting) {
  if (x[2] == 0 || x[3] == 0)
    fail(error_id::tensor_shape, operation, "x", to_string(x), "images of one pixel at least");
  return {.channels = x[1],
          .height = x[2],
          .width = x[3],
          .kernel_height = kernel_height,
          .kernel_width = kernel_width,
          .stride_height = setting.stride_height,
          .stride_width = setting.stride_width,
          .pad_height = setting.pad_height,
          .pad_width = setting.pad_width,
          .out_height = window_count(operation, x[2], setting.pad_height,
                                     padding_behind(setting.pad_height_behind, setting.pad_height),
                                     kernel_height, setting.dilation_height, setting.stride_height),
          .out_width = window_count(operation, x[3], setting.pad_width,
                                    padding_behind(setting.pad_width_behind, setting.pad_width),
                                    kernel_width, setting.dilation_width, setting.stride_width),
          .dilation_height = setting.dilation_height,
          .dilation_width = setting.dilation_width};
}

// Windows of a pool have adjacent pixels, at least one of them on the image. Errors operator.value,
// and those of window_of().
inline Window pool_window_of(std::string_view operation, const Shape& x, std::size_t kernel_height,
                             std::size_t kernel_width, const ConvolutionSetting& steps) {
  if (steps.dilation_height != 1 || steps.dilation_width != 1 || steps.groups != 1 ||
      steps.pad_height_behind != as_before || steps.pad_width_behind != as_before)
    fail(error_id::operator_value, operation, "steps",
         "dilation, groups or a padding behind of their own", "strides and padding");
  if (steps.pad_height >= kernel_height || steps.pad_width >= kernel_width)
    fail(error_id::tensor_shape, operation, "kernel",
         std::to_string(kernel_height) + " x " + std::to_string(kernel_width) + " with padding " +
             std::to_string(steps.pad_height) + ", " + std::to_string(steps.pad_width),
         "more than the padding");
  return window_of(operation, x, kernel_height, kernel_width, steps);
}

inline Window convolution_window(const Tensor& x, const Tensor& weight,
                                 const ConvolutionSetting& setting) {
  return window_of("convolution", x.shape(), weight.size(2), weight.size(3), setting);
}

inline double convolution_operations(const OperatorCall& call) {
  const Shape& weight = call.inputs[1].shape();
  return 2.0 * static_cast<double>(call.outputs[0].elements()) *
         static_cast<double>(weight.elements() / (std::max)(weight[0], std::size_t{1}));
}

// The operations of the gradients of images and weight; inputs x, weight, dy.
inline double convolution_backward_operations(const OperatorCall& call) {
  const Shape& weight = call.inputs[1].shape();
  return 4.0 * static_cast<double>(call.inputs[2].elements()) *
         static_cast<double>(weight.elements() / (std::max)(weight[0], std::size_t{1}));
}

// The first dimension of a weight consists of groups. Error tensor.shape.
inline void check_groups(std::string_view operation, const Tensor& weight, std::size_t groups) {
  if (weight.size(0) % groups != 0)
    fail(error_id::tensor_shape, operation, "weight", weight.describe(),
         "a multiple of " + std::to_string(groups) + " rows, one part for each group");
}

inline void convolution_shape(const ShapeCall& call) {
  const Tensor &x = call.inputs[0], &weight = call.inputs[1];
  check_rank("convolution", "x", x, 4);
  check_floating("convolution", "x", x);
  check_rank("convolution", "weight", weight, 4);
  check_floating("convolution", "weight", weight);
  const auto& setting = call.attributes.as<ConvolutionSetting>();
  const std::size_t groups = setting.groups;
  if (checked_multiply(weight.size(1), groups, "convolution") != x.size(1))
    fail(
        error_id::tensor_shape, "convolution", "x", x.describe(),
        std::to_string(weight.size(1) * groups) + " channels for the weight, " + weight.describe());
  check_groups("convolution", weight, groups);
  if (call.inputs.size() > 2 && call.inputs[2].defined())
    check_shape("convolution", "bias", call.inputs[2], Shape{weight.size(0)});
  const Window window = convolution_window(x, weight, setting);
  call.outputs[0] = {Shape{x.size(0), weight.size(0), window.out_height, window.out_width},
                     x.dtype()};
}

// The workspace of one image: the columns of a group and the memory of the matrix product.
struct ConvolutionSizes {
  // The columns' pixels and length, the outputs and the part of an image that a group has.
  std::size_t pixels, patch, outputs, image, groups;
  std::size_t result() const { return outputs * pixels; }  // a group's
  std::size_t workspace_bytes(const GemmKernels& gemm) const {
    const auto of = [&gemm](std::size_t m, std::size_t n, std::size_t k) {
      return gemm.workspace_bytes({.m = m, .n = n, .k = k});
    };
    const std::size_t product = (std::max)(
        {of(outputs, pixels, patch), of(outputs, patch, pixels), of(pixels, patch, outputs)});
    return round_up(product) + round_up(pixels * patch * sizeof(float));
  }
  static std::size_t round_up(std::size_t bytes) {
    return (bytes + memory_alignment - 1) / memory_alignment * memory_alignment;
  }
  float* columns(std::byte* workspace) const { return reinterpret_cast<float*>(workspace); }
  std::byte* product(std::byte* workspace) const {
    return workspace + round_up(pixels * patch * sizeof(float));
  }
};

// A convolution over plain fp32 tensors.
struct Convolution {
  Context& context;
  Window window;  // a group's
  ConvolutionSizes sizes;
  Tensor weight;

  Convolution(Context& where, const Window& whole, const Tensor& kernel, std::size_t groups)
      : context(where), window(whole), weight(kernel) {
    window.channels = whole.channels / groups;
    const std::size_t pixels = window.out_height * window.out_width;
    sizes = {.pixels = pixels,
             .patch = checked_multiply(window.channels * window.kernel_height, window.kernel_width,
                                       "convolution"),
             .outputs = kernel.size(0) / groups,
             .image = window.channels * window.height * window.width,
             .groups = groups};
  }
  // Each group has one channel. A convolution of one channel alone is a matrix product.
  bool depthwise() const { return sizes.groups > 1 && window.channels == 1; }
  // Multiply-adds of an image's group.
  std::size_t cost() const { return sizes.pixels * sizes.patch * sizes.outputs; }

  // Calls each(image, workspace) for every image.
  template <class Each>
  void for_images(std::size_t images, const Each& each) const {
    with_workspace(images, cost() * sizes.groups, sizes.workspace_bytes(context.kernels().gemm),
                   each);
  }
  // Calls each(i, workspace) for `count` channels of one group.
  template <class Each>
  void for_channels(std::size_t count, const Each& each) const {
    with_workspace(count, cost(), DepthwisePlanes(window).workspace_bytes(), each);
  }

 private:
  template <class Each>
  void with_workspace(std::size_t count, std::size_t each_costs, std::size_t bytes,
                      const Each& each) const {
    for_ranges(context, count, each_costs, [&](std::size_t begin, std::size_t end) {
      const Storage workspace = Storage::allocate(context.heap(), bytes);
      for (std::size_t i = begin; i < end; ++i) each(i, workspace.data());
    });
  }
};

inline Convolution convolution_of(Context& context, const Tensor& x, const Tensor& weight,
                                  const ConvolutionSetting& setting) {
  return {context, convolution_window(x, weight, setting), weight, setting.groups};
}

inline void depthwise_forward(const Convolution& c, const Tensor& x, const float* bias, float* y) {
  const ConvolutionSizes& sizes = c.sizes;
  c.for_channels(x.size(0) * sizes.groups, [&](std::size_t i, std::byte* workspace) {
    const std::size_t first = i % sizes.groups * sizes.outputs;
    c.context.kernels().image.depthwise({.window = c.window,
                                         .outputs = sizes.outputs,
                                         .image = x.data<float>() + i * sizes.image,
                                         .weight = c.weight.data<float>() + first * sizes.patch,
                                         .bias = bias != nullptr ? bias + first : nullptr,
                                         .y = y + i * sizes.result(),
                                         .workspace = workspace});
  });
}

// y of an image's group, O x pixels, = bias + W (O x patch) columns^T: the bias is stored first and
// the product added to it.
inline void convolution_host(const OperatorCall& call) {
  Context& context = call.context;
  const Tensor x = contiguous(context, call.inputs[0]),
               weight = contiguous(context, call.inputs[1]);
  const Tensor bias = call.inputs.size() > 2 ? plain_fp32(context, call.inputs[2]) : Tensor();
  const Convolution c =
      convolution_of(context, x, weight, call.attributes.as<ConvolutionSetting>());
  const ConvolutionSizes& sizes = c.sizes;
  float* results = call.outputs[0].mutable_data<float>();
  if (c.depthwise())
    return depthwise_forward(c, x, bias.defined() ? bias.data<float>() : nullptr, results);
  c.for_images(x.size(0), [&](std::size_t i, std::byte* workspace) {
    for (std::size_t group = 0; group < sizes.groups; ++group) {
      const std::size_t first = group * sizes.outputs;
      float* y = results + (i * sizes.groups + group) * sizes.result();
      for (std::size_t o = 0; o < sizes.outputs; ++o)
        std::fill_n(y + o * sizes.pixels, sizes.pixels,
                    bias.defined() ? bias.data<float>()[first + o] : 0.0f);
      context.kernels().image.unfold(
          {.window = c.window,
           .image = x.data<float>() + (i * sizes.groups + group) * sizes.image,
           .columns = sizes.columns(workspace)});
      GemmArgs args{.m = sizes.outputs, .n = sizes.pixels, .k = sizes.patch};
      args.a = {.data = weight.data<float>() + first * sizes.patch, .row_stride = sizes.patch};
      args.b = {.data = sizes.columns(workspace), .row_stride = 1, .column_stride = sizes.patch};
      args.c = {.data = y, .row_stride = sizes.pixels};
      args.epilogue.accumulate = true;
      args.workspace = sizes.product(workspace);
      context.kernels().gemm.multiply(args);
    }
  });
}

// Inputs x, weight, dy; outputs dx, dweight, dbias.
inline void convolution_backward_shape(const ShapeCall& call) {
  const Tensor &x = call.inputs[0], &weight = call.inputs[1];
  call.outputs[0] = {x.shape(), x.dtype()};
  call.outputs[1] = {weight.shape(), DType::fp32};
  call.outputs[2] = {Shape{weight.size(0)}, DType::fp32};
}

// Adds shard 0 + 1, 2 + 3 ..., then those sums: the fixed tree. The total ends in part 0.
inline void add_parts(Context& context, const Tensor& parts) {
  for (std::size_t step = 1; step < parts.size(0); step *= 2)
    for (std::size_t i = 0; i + step < parts.size(0); i += 2 * step)
      add_into(context, parts.select(0, i), parts.select(0, i + step));
}

// dx of each image: dcolumns = dy^T W, folded back.
inline void image_gradients(const Convolution& c, const Tensor& dy, float* dx) {
  const ConvolutionSizes& sizes = c.sizes;
  if (c.depthwise())
    return c.for_channels(dy.size(0) * sizes.groups, [&](std::size_t i, std::byte* workspace) {
      c.context.kernels().image.depthwise_backward(
          {.window = c.window,
           .outputs = sizes.outputs,
           .weight = c.weight.data<float>() + i % sizes.groups * sizes.outputs * sizes.patch,
           .dy = dy.data<float>() + i * sizes.result(),
           .dimage = dx + i * sizes.image,
           .workspace = workspace});
    });
  c.for_images(dy.size(0), [&](std::size_t i, std::byte* workspace) {
    for (std::size_t group = 0; group < sizes.groups; ++group) {
      const std::size_t part = i * sizes.groups + group;
      GemmArgs args{.m = sizes.pixels, .n = sizes.patch, .k = sizes.outputs};
      args.a = {.data = dy.data<float>() + part * sizes.result(),
                .row_stride = 1,
                .column_stride = sizes.pixels};
      args.b = {.data = c.weight.data<float>() + group * sizes.outputs * sizes.patch,
                .row_stride = sizes.patch};
      args.c = {.data = sizes.columns(workspace), .row_stride = sizes.patch};
      args.workspace = sizes.product(workspace);
      c.context.kernels().gemm.multiply(args);
      c.context.kernels().image.fold({.window = c.window,
                                      .columns = sizes.columns(workspace),
                                      .image = dx + part * sizes.image});
    }
  });
}

// Adds dW of an image, dy columns for each group, to `sums`.
inline void add_weight_gradient(const Convolution& c, const float* x, const float* dy, float* sums,
                                std::byte* workspace) {
  const ConvolutionSizes& sizes = c.sizes;
  for (std::size_t group = 0; group < sizes.groups; ++group) {
    c.context.kernels().image.unfold({.window = c.window,
                                      .image = x + group * sizes.image,
                                      .columns = sizes.columns(workspace)});
    GemmArgs args{.m = sizes.outputs, .n = sizes.patch, .k = sizes.pixels};
    args.a = {.data = dy + group * sizes.result(), .row_stride = sizes.pixels};
    args.b = {.data = sizes.columns(workspace), .row_stride = sizes.patch};
    args.c = {.data = sums + group * sizes.outputs * sizes.patch, .row_stride = sizes.patch};
    args.epilogue.accumulate = true;
    args.workspace = sizes.product(workspace);
    c.context.kernels().gemm.multiply(args);
  }
}

// The sums of dy over the pixels of each of its `count` planes.
inline void add_pixels(const Convolution& c, const float* dy, std::size_t count, float* sums) {
  c.context.kernels().reduce.rows({.rows = count,
                                   .columns = c.sizes.pixels,
                                   .x = {.data = dy, .row_stride = c.sizes.pixels},
                                   .out = sums});
}

// dx of all images, and for each shard its images' dW in order; a channel of a shard is a task.
inline void depthwise_gradients(const Convolution& c, const Tensor& x, const Tensor& dy,
                                const Segments& segments, float* dx, float* sums,
                                float* pixel_sums) {
  const ConvolutionSizes& sizes = c.sizes;
  c.for_channels(segments.count * sizes.groups, [&](std::size_t task, std::byte* workspace) {
    const std::size_t shard = task / sizes.groups, channel = task % sizes.groups;
    for (std::size_t i = segments.bounds[shard]; i < segments.bounds[shard + 1]; ++i) {
      const std::size_t plane = i * sizes.groups + channel;
      const float* own = dy.data<float>() + plane * sizes.result();
      c.context.kernels().image.depthwise_backward(
          {.window = c.window,
           .outputs = sizes.outputs,
           .image = x.data<float>() + plane * sizes.image,
           .weight = c.weight.data<float>() + channel * sizes.outputs * sizes.patch,
           .dy = own,
           .dimage = dx + plane * sizes.image,
           .dweight = sums + task * sizes.outputs * sizes.patch,
           .workspace = workspace});
      add_pixels(c, own, sizes.outputs, pixel_sums + plane * sizes.outputs);
    }
  });
}

inline void convolution_backward_host(const OperatorCall& call) {
  Context& context = call.context;
  const Tensor x = contiguous(context, call.inputs[0]),
               weight = contiguous(context, call.inputs[1]);
  const Tensor dy = contiguous(context, call.inputs[2]);
  const Convolution c =
      convolution_of(context, x, weight, call.attributes.as<ConvolutionSetting>());
  const ConvolutionSizes& sizes = c.sizes;
  const std::size_t images = x.size(0), outputs = weight.size(0);
  float* dx = call.outputs[0].mutable_data<float>();

  // dW = sum over images of dy columns, with the images of a shard in order; dbias likewise, first
  // over pixels.
  const RowSegments segments(call.sequences, images);
  const std::size_t shards = segments.get().count;
  const Tensor weights = Tensor::zeros(context, Shape{shards, outputs * sizes.patch});
  float* sums = weights.mutable_data<float>();
  const Tensor pixel_sums = Tensor::empty(context, Shape{images, outputs});
  float* dbias = pixel_sums.mutable_data<float>();
  if (c.depthwise()) {
    depthwise_gradients(c, x, dy, segments.get(), dx, sums, dbias);
  } else {
    image_gradients(c, dy, dx);
    c.for_images(shards, [&](std::size_t shard, std::byte* workspace) {
      for (std::size_t i = segments.get().bounds[shard]; i < segments.get().bounds[shard + 1];
           ++i) {
        const float* own = dy.data<float>() + i * outputs * sizes.pixels;
        add_weight_gradient(c, x.data<float>() + i * sizes.groups * sizes.image, own,
                            sums + shard * outputs * sizes.patch, workspace);
        add_pixels(c, own, outputs, dbias + i * outputs);
      }
    });
  }
  add_parts(context, weights);
  copy(weights.select(0, 0).reshape(weight.shape()), call.outputs[1]);
  column_sums(context, pixel_sums, call.sequences, call.outputs[2].mutable_data<float>());
}

inline void convolution_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

inline constexpr Operator convolution_backward{
    .name = "convolution backward",
    .min_inputs = 3,
    .max_inputs = 3,
    .outputs = 3,
    .shape = &detail::convolution_backward_shape,
    .host = &detail::image_host<detail::convolution_backward_host>,
    .operations = &detail::convolution_backward_operations};

inline constexpr Operator convolution{.name = "convolution",
                                      .min_inputs = 2,
                                      .max_inputs = 3,
                                      .keeps_inputs = 3,
                                      .batch_inputs = 1,
                                      .row_dimensions = RowDimensions::first,
                                      .shape = &detail::convolution_shape,
                                      .host = &detail::image_host<detail::convolution_host>,
                                      .gradient = &detail::convolution_gradient,
                                      .wide_gradients = true,
                                      .built_in_samples = true,
                                      .operations = &detail::convolution_operations};

}  // namespace ops

inline void detail::convolution_gradient(const GradientCall& call) {
  const Outputs gradients =
      run(call.context, ops::convolution_backward, call.attributes,
          {call.inputs[0], call.inputs[1], call.output_gradients[0]}, call.sequences);
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    if (call.wanted[i]) call.input_gradients[i].values = gradients[i];
}

}  // namespace SOMA_NAMESPACE
