#pragma once
// 2-D convolution (cross-correlation, as everywhere in the field) through the matrix product: x
// [N, C, H, W], weight [O, C, kernel height, kernel width], bias [O]; y [N, O, H', W'] with
// H' = (H + 2 pad - kernel) / stride + 1. Each image is unfolded into columns, fp32. Any
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

// Window of a convolution or a pool over x. Error tensor.shape: no pixels, or a kernel larger than
// the padded image.
inline Window window_of(std::string_view operation, const Shape& x, std::size_t kernel_height,
                        std::size_t kernel_width, const ConvolutionSetting& setting) {
  if (x[2] == 0 || x[3] == 0)
    fail(error_id::tensor_shape, operation, "x", to_string(x), "images of one pixel at least");
  Window window{.channels = x[1],
                .height = x[2],
                .width = x[3],
                .kernel_height = kernel_height,
                .kernel_width = kernel_width,
                .stride_height = setting.stride_height,
                .stride_width = setting.stride_width,
                .pad_height = setting.pad_height,
                .pad_width = setting.pad_width};
  const auto out = [&](std::size_t size, std::size_t pad, std::size_t kernel, std::size_t stride) {
    const std::size_t padded = checked_add(size, checked_multiply(2, pad, operation), operation);
    if (kernel == 0 || kernel > padded || pad >= kernel)
      fail(error_id::tensor_shape, operation, "kernel",
           std::to_string(kernel) + " with padding " + std::to_string(pad),
           "1 to the padded size, " + std::to_string(padded) + ", and more than the padding");
    return (padded - kernel) / stride + 1;
  };
  window.out_height = out(x[2], setting.pad_height, kernel_height, setting.stride_height);
  window.out_width = out(x[3], setting.pad_width, kernel_width, setting.stride_width);
  return window;
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

inline void convolution_shape(const ShapeCall& call) {
  const Tensor &x = call.inputs[0], &weight = call.inputs[1];
  check_rank("convolution", "x", x, 4);
  check_floating("convolution", "x", x);
  check_rank("convolution", "weight", weight, 4);
  check_floating("convolution", "weight", weight);
  if (weight.size(1) != x.size(1))
    fail(error_id::tensor_shape, "convolution", "x", x.describe(),
         std::to_string(weight.size(1)) + " channels for the weight, " + weight.describe());
  if (call.inputs.size() > 2 && call.inputs[2].defined())
    check_shape("convolution", "bias", call.inputs[2], Shape{weight.size(0)});
  const Window window = convolution_window(x, weight, call.attributes.as<ConvolutionSetting>());
  call.outputs[0] = {Shape{x.size(0), weight.size(0), window.out_height, window.out_width},
                     x.dtype()};
}

// The workspace of one image: its columns and the memory of the matrix product.
struct ConvolutionSizes {
  std::size_t pixels, patch, outputs, image, result;
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
inline ConvolutionSizes convolution_sizes(const Window& w, std::size_t outputs) {
  const std::size_t pixels = w.out_height * w.out_width;
  return {pixels, checked_multiply(w.channels * w.kernel_height, w.kernel_width, "convolution"),
          outputs, w.channels * w.height * w.width, outputs * pixels};
}

// Calls each(image, workspace) for every image.
template <class Each>
void for_images(Context& context, std::size_t images, const ConvolutionSizes& sizes,
                const Each& each) {
  const std::size_t bytes = sizes.workspace_bytes(context.kernels().gemm);
  const std::size_t cost = sizes.pixels * sizes.patch * sizes.outputs;
  for_ranges(context, images, cost, [&](std::size_t begin, std::size_t end) {
    const Storage workspace = Storage::allocate(context.heap(), bytes);
    for (std::size_t i = begin; i < end; ++i) each(i, workspace.data());
  });
}

// y of an image, O x pixels, = bias + W (O x patch) columns^T: the bias is stored first and the
// product added to it.
inline void convolution_host(const OperatorCall& call) {
  Context& context = call.context;
  const Tensor x = contiguous(context, call.inputs[0]),
               weight = contiguous(context, call.inputs[1]);
  const Tensor bias = call.inputs.size() > 2 ? plain_fp32(context, call.inputs[2]) : Tensor();
  const Window window = convolution_window(x, weight, call.attributes.as<ConvolutionSetting>());
  const ConvolutionSizes sizes = convolution_sizes(window, weight.size(0));
  const float* images = x.data<float>();
  float* results = call.outputs[0].mutable_data<float>();
  for_images(context, x.size(0), sizes, [&](std::size_t i, std::byte* workspace) {
    float* y = results + i * sizes.result;
    for (std::size_t o = 0; o < sizes.outputs; ++o)
      std::fill_n(y + o * sizes.pixels, sizes.pixels,
                  bias.defined() ? bias.data<float>()[o] : 0.0f);
    context.kernels().image.unfold(
        {.window = window, .image = images + i * sizes.image, .columns = sizes.columns(workspace)});
    GemmArgs args{.m = sizes.outputs, .n = sizes.pixels, .k = sizes.patch};
    args.a = {.data = weight.raw(), .row_stride = sizes.patch};
    args.b = {.data = sizes.columns(workspace), .row_stride = 1, .column_stride = sizes.patch};
    args.c = {.data = y, .row_stride = sizes.pixels};
    args.epilogue.accumulate = true;
    args.workspace = sizes.product(workspace);
    context.kernels().gemm.multiply(args);
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
inline void fold_images(Context& context, const Tensor& dy, const Tensor& weight,
                        const Window& window, const ConvolutionSizes& sizes, float* dx) {
  for_images(context, dy.size(0), sizes, [&](std::size_t i, std::byte* workspace) {
    GemmArgs args{.m = sizes.pixels, .n = sizes.patch, .k = sizes.outputs};
    args.a = {.data = dy.data<float>() + i * sizes.result,
              .row_stride = 1,
              .column_stride = sizes.pixels};
    args.b = {.data = weight.raw(), .row_stride = sizes.patch};
    args.c = {.data = sizes.columns(workspace), .row_stride = sizes.patch};
    args.workspace = sizes.product(workspace);
    context.kernels().gemm.multiply(args);
    context.kernels().image.fold(
        {.window = window, .columns = sizes.columns(workspace), .image = dx + i * sizes.image});
  });
}

inline void convolution_backward_host(const OperatorCall& call) {
  Context& context = call.context;
  const Tensor x = contiguous(context, call.inputs[0]),
               weight = contiguous(context, call.inputs[1]);
  const Tensor dy = contiguous(context, call.inputs[2]);
  const Window window = convolution_window(x, weight, call.attributes.as<ConvolutionSetting>());
  const ConvolutionSizes sizes = convolution_sizes(window, weight.size(0));
  const std::size_t images = x.size(0);
  fold_images(context, dy, weight, window, sizes, call.outputs[0].mutable_data<float>());

  // dW = sum over images of dy columns, with the images of a shard in order; dbias likewise, first
  // over pixels.
  const RowSegments segments(call.sequences, images);
  const std::size_t shards = segments.get().count;
  const Tensor weights = Tensor::zeros(context, Shape{shards, sizes.outputs * sizes.patch});
  float* sums = weights.mutable_data<float>();
  const Tensor pixel_sums = Tensor::empty(context, Shape{images, sizes.outputs});
  float* dbias = pixel_sums.mutable_data<float>();
  for_images(context, shards, sizes, [&](std::size_t shard, std::byte* workspace) {
    for (std::size_t i = segments.get().bounds[shard]; i < segments.get().bounds[shard + 1]; ++i) {
      context.kernels().image.unfold({.window = window,
                                      .image = x.data<float>() + i * sizes.image,
                                      .columns = sizes.columns(workspace)});
      GemmArgs args{.m = sizes.outputs, .n = sizes.patch, .k = sizes.pixels};
      args.a = {.data = dy.data<float>() + i * sizes.result, .row_stride = sizes.pixels};
      args.b = {.data = sizes.columns(workspace), .row_stride = sizes.patch};
      args.c = {.data = sums + shard * sizes.outputs * sizes.patch, .row_stride = sizes.patch};
      args.epilogue.accumulate = true;
      args.workspace = sizes.product(workspace);
      context.kernels().gemm.multiply(args);
      context.kernels().reduce.rows(
          {.rows = sizes.outputs,
           .columns = sizes.pixels,
           .x = {.data = dy.data<float>() + i * sizes.result, .row_stride = sizes.pixels},
           .out = dbias + i * sizes.outputs});
    }
  });
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
