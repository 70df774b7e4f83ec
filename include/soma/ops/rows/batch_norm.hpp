#pragma once
// Batch norm (arXiv 1502.03167) of x [N, C, ...]: y = (x - mean) / sqrt(variance + epsilon) * gamma
// + beta, with the mean and biased variance of a channel over the whole batch, or given ones.
//
// Each plane (an image's channel) has a center near its mean, and sums around this center. A
// channel's statistics combine those of its planes, as sums over the images in the order of the
// shards, and over the ranks that share the batch along the same tree. So the bits depend neither
// on threads nor on ranks. kernels/norm/moments.hpp has the formulas and the bounds of errors.

#include <soma/kernels/norm/moments.hpp>
#include <soma/numeric/fused.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/rows/reduce.hpp>
#include <soma/ops/rows/settings.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// Inputs x, gamma, beta; with given statistics also mean and variance. Outputs y; the statistics in
// use, [3, C]: mean, 1 / standard deviation, unbiased variance; the number of elements of a channel
// in the whole batch.
inline void batch_norm_shape(const ShapeCall& call) {
  constexpr std::string_view name = "batch_norm";
  const auto& setting = call.attributes.as<BatchNormSetting>();
  const Tensor& x = call.inputs[0];
  check_min_rank(name, "x", x, 2);
  check_floating(name, "x", x);
  check_no_padding(name, call.sequences);
  const Shape channels{x.size(1)};
  constexpr std::string_view arguments[] = {"x", "gamma", "beta", "mean", "variance"};
  for (std::size_t i = 1; i < (setting.given ? 5u : 3u); ++i) {
    const Tensor vector = input_or_none(call.inputs, i);
    if (!vector.defined())
      fail(error_id::operator_inputs, name, arguments[i], "not defined", "a tensor");
    check_floating(name, arguments[i], vector);
    check_shape(name, arguments[i], vector, channels);
  }
  call.outputs[0] = {x.shape(), x.dtype()};
  call.outputs[1] = {Shape{3, x.size(1)}, DType::fp32};
  call.outputs[2] = {Shape{}, DType::int64};
}

// Planes of x, fp32 and row-major.
struct Planes {
  std::size_t images, channels, pixels;

  explicit Planes(const Shape& shape) : images(shape[0]), channels(shape[1]), pixels(1) {
    for (std::size_t i = 2; i < shape.rank(); ++i) pixels *= shape[i];
  }
  // Calls kernel(args) for parts of all planes; `args` holds the common arguments.
  template <class Entry>
  void run(Context& context, ChannelArgs args, const Entry& entry) const {
    args.columns = pixels;
    args.channels = channels;
    for_ranges(context, images * channels, pixels * 2, [&](std::size_t begin, std::size_t end) {
      ChannelArgs part = args;
      const std::size_t first = begin * pixels;
      part.rows = end - begin;
      part.first_row = begin;
      part.x += first;
      if (part.dy != nullptr) part.dy += first;
      if (part.y != nullptr) part.y += first;
      if (part.centers != nullptr) part.centers += begin;
      if (part.sums != nullptr) part.sums += begin;
      if (part.squares != nullptr) part.squares += begin;
      entry(part);
    });
  }
};

// Sums [images, channels] numbers over the images: first of this rank, then of all ranks.
class ChannelSums {
 public:
  ChannelSums(const OperatorCall& call, std::size_t vectors, std::size_t channels)
      : context_(call.context),
        sequences_(call.sequences),
        channels_(channels),
        own_(Tensor::zeros(call.context, Shape{vectors * channels + 2})) {}
  ChannelSums(const GradientCall& call, std::size_t vectors, std::size_t channels)
      : context_(call.context),
        sequences_(call.sequences),
        channels_(channels),
        own_(Tensor::zeros(call.context, Shape{vectors * channels + 2})) {}

  void add(std::size_t vector, const Tensor& planes) {
    column_sums(context_, planes, sequences_, of(vector));
  }
  float* of(std::size_t vector) const { return own_.mutable_data<float>() + vector * channels_; }
  // A number to which every rank contributes a part, exact up to 2^36 in two floats.
  void set_count(std::size_t count) {
    float* parts = own_.mutable_data<float>() + own_.elements() - 2;
    parts[0] = static_cast<float>(count / count_unit);
    parts[1] = static_cast<float>(count % count_unit);
  }
  std::size_t count() const {
    const float* parts = own_.data<float>() + own_.elements() - 2;
    return static_cast<std::size_t>(parts[0]) * count_unit + static_cast<std::size_t>(parts[1]);
  }
  void share(BatchSums* ranks) {
    if (ranks != nullptr) ranks->add(own_.mutable_span<float>());
  }

 private:
  static constexpr std::size_t count_unit = 4096;
  Context& context_;
  const Sequences& sequences_;
  std::size_t channels_;
  Tensor own_;
};

// The sums of planes around centers, [images, channels] each.
struct PlaneSums {
  Tensor centers, rests, squares;

  PlaneSums(Context& context, const Planes& planes)
      : centers(Tensor::empty(context, Shape{planes.images, planes.channels})),
        rests(Tensor::empty(context, centers.shape())),
        squares(Tensor::empty(context, centers.shape())) {}

  // The same sums around the centers of channels: with the distance s of a plane's center, the sums
  // r of x - center and q of its square become r + n s and q + s (2 r + n s) for n pixels.
  void move(Context& context, const Planes& planes, const float* means, PlaneSums& to) const {
    const auto pixels = static_cast<float>(planes.pixels);
    const float *center = centers.data<float>(), *rest = rests.data<float>(),
                *square = squares.data<float>();
    float *rest_to = to.rests.mutable_data<float>(), *square_to = to.squares.mutable_data<float>();
    for_ranges(context, planes.images * planes.channels, 4,
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t i = begin; i < end; ++i) {
                   const float distance = center[i] - means[i % planes.channels];
                   rest_to[i] = fused_multiply_add(pixels, distance, rest[i]);
                   square_to[i] = fused_multiply_add(distance, rest[i] + rest_to[i], square[i]);
                 }
               });
  }
};

// The statistics of the whole batch. Error operator.value: a single element.
inline std::size_t batch_statistics(const OperatorCall& call, const Planes& planes,
                                    const float* x) {
  Context& context = call.context;
  const auto& setting = call.attributes.as<BatchNormSetting>();
  const std::size_t channels = planes.channels;
  const PlaneSums own(context, planes);
  planes.run(context,
             {.x = x,
              .centers = own.centers.mutable_data<float>(),
              .sums = own.rests.mutable_data<float>(),
              .squares = own.squares.mutable_data<float>()},
             [&](const ChannelArgs& args) { context.kernels().norm.channel_moments(args); });

  ChannelSums centers(call, 1, channels);
  centers.add(0, own.centers);
  centers.set_count(planes.images);
  centers.share(setting.sums);
  const std::size_t images = centers.count(), count = images * planes.pixels;
  if (count < 2)
    fail(error_id::operator_value, "batch_norm", "x",
         std::to_string(count) + " elements of a channel in the whole batch",
         "2 or more in training");
  float* mean = call.outputs[1].mutable_data<float>();
  for (std::size_t c = 0; c < channels; ++c)
    mean[c] = centers.of(0)[c] / static_cast<float>(images);

  // All ranks see the same sums, so they repeat the pass alike. A second repetition is for batches
  // of so many images that the first one is not exact.
  constexpr int repetitions = 2;
  const auto number = static_cast<float>(count);
  PlaneSums moved(context, planes);
  for (int pass = 0;; ++pass) {
    own.move(context, planes, mean, moved);
    ChannelSums around(call, 2, channels);
    around.add(0, moved.rests);
    around.add(1, moved.squares);
    around.share(setting.sums);
    bool off = false;
    for (std::size_t c = 0; c < channels && pass < repetitions; ++c) {
      const float rest = around.of(0)[c] / number;
      if (!center_is_off(rest, around.of(1)[c] / number)) continue;
      mean[c] += rest;
      off = true;
    }
    if (off) continue;
    float *rstd = mean + channels, *unbiased = rstd + channels;
    for (std::size_t c = 0; c < channels; ++c) {
      const float rest = around.of(0)[c] / number;
      const float variance = variance_of(rest, around.of(1)[c] / number);
      mean[c] += rest;
      rstd[c] = rstd_of(variance, setting.epsilon);
      unbiased[c] = variance * (number / (number - 1));
    }
    return count;
  }
}

inline void batch_norm_plain(const OperatorCall& call) {
  Context& context = call.context;
  const auto& setting = call.attributes.as<BatchNormSetting>();
  const Planes planes(call.inputs[0].shape());
  const std::size_t channels = planes.channels;
  const float* x = call.inputs[0].data<float>();
  float *mean = call.outputs[1].mutable_data<float>(), *rstd = mean + channels;
  std::size_t count = 0;
  if (setting.given) {
    const float *given = call.inputs[3].data<float>(), *variance = call.inputs[4].data<float>();
    for (std::size_t c = 0; c < channels; ++c) {
      mean[c] = given[c];
      rstd[c] = rstd_of(variance[c], setting.epsilon);
      rstd[channels + c] = variance[c];
    }
  } else {
    count = batch_statistics(call, planes, x);
  }
  *call.outputs[2].mutable_data<std::int64_t>() = static_cast<std::int64_t>(count);
  const Tensor scales = Tensor::empty(context, Shape{channels});
  const float* gamma = call.inputs[1].data<float>();
  for (std::size_t c = 0; c < channels; ++c) scales.mutable_data<float>()[c] = rstd[c] * gamma[c];
  planes.run(context,
             {.x = x,
              .y = call.outputs[0].mutable_data<float>(),
              .mean = mean,
              .scale = scales.data<float>(),
              .shift = call.inputs[2].data<float>()},
             [&](const ChannelArgs& args) { context.kernels().norm.channel_forward(args); });
}
inline void batch_norm_host(const OperatorCall& call) {
  with_plain_tensors(call, 0, batch_norm_plain);
}

// dgamma = sum of dy xhat, dbeta = sum of dy, of this rank's images;
// dx = gamma rstd (dy - mean of dy - xhat mean of dy xhat), means over the whole batch.
inline void batch_norm_gradient_plain(const GradientCall& call) {
  Context& context = call.context;
  const auto& setting = call.attributes.as<BatchNormSetting>();
  const Planes planes(call.inputs[0].shape());
  const std::size_t channels = planes.channels;
  const Tensor dy = contiguous(context, call.output_gradients[0]);
  const float *x = call.inputs[0].data<float>(), *mean = call.outputs[1].data<float>();
  const float* rstd = mean + channels;
  const Tensor of_dy = Tensor::empty(context, Shape{planes.images, channels});
  const Tensor of_products = Tensor::empty(context, Shape{planes.images, channels});
  planes.run(context,
             {.x = x,
              .dy = dy.data<float>(),
              .sums = of_dy.mutable_data<float>(),
              .squares = of_products.mutable_data<float>(),
              .mean = mean,
              .rstd = rstd},
             [&](const ChannelArgs& args) { context.kernels().norm.channel_sums(args); });
  ChannelSums sums(call, 2, channels);
  sums.add(0, of_dy);
  sums.add(1, of_products);
  for (std::size_t i = 1; i < 3; ++i) {
    if (!call.wanted[i]) continue;
    call.input_gradients[i].values = Tensor::empty(context, Shape{channels});
    std::copy_n(sums.of(2 - i), channels, call.input_gradients[i].values.mutable_data<float>());
  }
  if (!call.wanted[0]) return;
  const Tensor scales = Tensor::empty(context, Shape{channels});
  const float* gamma = call.inputs[1].data<float>();
  if (!setting.given) sums.share(setting.sums);
  const auto count = static_cast<float>(*call.outputs[2].data<std::int64_t>());
  for (std::size_t c = 0; c < channels; ++c) {
    scales.mutable_data<float>()[c] = rstd[c] * gamma[c];
    for (std::size_t i = 0; i < 2; ++i) sums.of(i)[c] = setting.given ? 0 : sums.of(i)[c] / count;
  }
  const Tensor dx = Tensor::empty(context, call.inputs[0].shape());
  planes.run(context,
             {.x = x,
              .dy = dy.data<float>(),
              .y = dx.mutable_data<float>(),
              .mean = mean,
              .rstd = rstd,
              .scale = scales.data<float>(),
              .mean_dy = sums.of(0),
              .mean_dy_xhat = sums.of(1)},
             [&](const ChannelArgs& args) { context.kernels().norm.channel_backward(args); });
  call.input_gradients[0].values = dx;
}
inline void batch_norm_gradient(const GradientCall& call) {
  with_plain_tensors(call, batch_norm_gradient_plain);
}

}  // namespace detail

namespace ops {

inline constexpr Operator batch_norm{.name = "batch_norm",
                                     .min_inputs = 3,
                                     .max_inputs = 5,
                                     .outputs = 3,
                                     .keeps_inputs = 3,
                                     .keeps_outputs = 6,
                                     .batch_inputs = 1,
                                     .row_dimensions = RowDimensions::first,
                                     .shape = &detail::batch_norm_shape,
                                     .host = &detail::batch_norm_host,
                                     .gradient = &detail::batch_norm_gradient,
                                     .wide_gradients = true,
                                     .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
