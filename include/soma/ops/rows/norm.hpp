#pragma once
// Layer norm and RMS norm over the last dimension: y = (x - mean) / sqrt(variance + epsilon) *
// gamma + beta; RMS norm leaves out mean and beta.

#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// Inputs x, gamma, beta (left out with rms); outputs y, mean (empty with rms), 1 / standard
// deviation.
inline void norm_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<NormSetting>();
  const Tensor& x = call.inputs[0];
  check_min_rank("norm", "x", x, 1);
  check_floating("norm", "x", x);
  const Shape columns{x.shape().columns()};
  if (call.inputs[1].rank() == 1 && call.inputs[1].shape() != columns)
    fail(error_id::tensor_shape, "norm", "x", x.describe(),
         "[..., " + std::to_string(call.inputs[1].size(0)) + "] for gamma, " +
             call.inputs[1].describe());
  check_shape("norm", "gamma", call.inputs[1], columns);
  if (call.inputs.size() > 2 && call.inputs[2].defined())
    check_shape("norm", "beta", call.inputs[2], columns);
  call.outputs[0] = {x.shape(), x.dtype()};
  call.outputs[1] = {Shape{setting.rms ? 0 : x.shape().rows()}, DType::fp32};
  call.outputs[2] = {Shape{x.shape().rows()}, DType::fp32};
}

inline void norm_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<NormSetting>();
  Context& context = call.context;
  const TensorRows x = rows_of(context, call.inputs[0]);
  const Tensor gamma = plain_fp32(context, call.inputs[1]);
  const Tensor beta = call.inputs.size() > 2 ? plain_fp32(context, call.inputs[2]) : Tensor();
  const MatrixTarget y = target(call.outputs[0]);
  float* mean = setting.rms ? nullptr : call.outputs[1].mutable_data<float>();
  float* rstd = call.outputs[2].mutable_data<float>();
  const std::size_t columns = x.shape().columns();
  for_ranges(context, x.shape().rows(), columns * 4, [&](std::size_t begin, std::size_t end) {
    context.kernels().norm.forward({.rows = end - begin,
                                    .columns = columns,
                                    .rms = setting.rms,
                                    .epsilon = setting.epsilon,
                                    .x = part(operand(x), begin, 0),
                                    .gamma = floats(gamma),
                                    .beta = floats(beta),
                                    .y = part(y, begin, 0),
                                    .mean = mean == nullptr ? nullptr : mean + begin,
                                    .rstd = rstd + begin});
  });
}

// Inputs x, gamma, mean, rstd, dy; outputs dx, dgamma, dbeta.
inline void norm_backward_shape(const ShapeCall& call) {
  const Tensor& x = call.inputs[0];
  check_shape("norm backward", "dy", call.inputs[4], x.shape());
  call.outputs[0] = {x.shape(), x.dtype()};
  call.outputs[1] = {Shape{x.shape().columns()}, DType::fp32};
  call.outputs[2] = {Shape{x.shape().columns()}, DType::fp32};
}

// Backward of some rows.
inline NormArgs norm_rows(NormArgs args, std::size_t begin, std::size_t end) {
  args.rows = end - begin;
  args.x = part(args.x, begin, 0);
  args.dy = part(args.dy, begin, 0);
  args.dx = part(args.dx, begin, 0);
  if (args.mean != nullptr) args.mean += begin;
  args.rstd += begin;
  return args;
}

// True if one pass over segments of rows gives dx, dgamma and dbeta. That pays if there are enough
// segments for about equal shares, and if a segment has enough rows for sums of its own. Otherwise
// threads share the columns of the sums in a second pass.
inline bool norm_gradients_meet(Context& context, const NormArgs& args) {
  const Segments& segments = args.segments;
  const auto width = static_cast<std::size_t>(context.executor().width);
  std::size_t longest = 0;
  for (std::size_t i = 0; i < segments.count; ++i)
    longest = (std::max)(longest, segments.bounds[i + 1] - segments.bounds[i]);
  constexpr std::size_t rows_worth_sums = 8;
  return args.rows >= rows_worth_sums * segments.count &&
         (width == 1 || longest <= args.rows / (2 * width));
}

// The sums of a segment are made run by run, those of all in a tree, as ColumnSumArgs says: the
// bits of backward_parameters.
inline void norm_gradients_at_once(Context& context, const NormArgs& args) {
  const Segments& segments = args.segments;
  constexpr std::size_t line = memory_alignment / sizeof(float);
  const std::size_t stride = (args.columns + line - 1) / line * line, both = 2 * stride;
  const Storage memory = Storage::allocate(
      context.heap(), checked_multiply(2 * segments.count * sizeof(float), both, "norm backward"));
  // The sums of each segment, followed by the sums of a run.
  auto* const sums = reinterpret_cast<float*>(memory.data());
  constexpr std::size_t operations = 8;  // of an element
  const UnevenRanges ranges(context, segments.count, operations_worth_a_task,
                            [&](std::size_t segment) {
                              return (segments.bounds[segment + 1] - segments.bounds[segment]) *
                                     args.columns * operations;
                            });
  std::fill_n(sums, 2 * segments.count * both, 0.0f);
  ranges.run(context, [&](std::size_t first, std::size_t last, std::size_t) {
    for (std::size_t segment = first; segment < last; ++segment) {
      const std::size_t begin = segments.bounds[segment], end = segments.bounds[segment + 1];
      const std::size_t run = rows_of_run(end - begin);
      float *const total = sums + 2 * segment * both, *const next = total + both;
      for (std::size_t row = begin; row < end; row += run) {
        NormArgs own = norm_rows(args, row, (std::min)(row + run, end));
        float* const to = row == begin ? total : next;
        own.gamma_sums = to, own.beta_sums = to + stride;
        context.kernels().norm.backward(own);
        if (row == begin) continue;
        for (std::size_t i = 0; i < both; ++i) total[i] += next[i], next[i] = 0;
      }
    }
  });
  HeapVector<std::size_t> rows(context.heap());
  rows.resize(segments.count + 1);
  for (std::size_t i = 0; i <= segments.count; ++i) rows[i] = i;
  parallel(context, 1, [&](int) {
    const auto meet = [&](const float* from, float* to) {
      context.kernels().reduce.column_sums({.rows = segments.count,
                                            .columns = args.columns,
                                            .x = {.data = from, .row_stride = 2 * both},
                                            .segments = {rows.data(), segments.count},
                                            .out = to});
    };
    meet(sums, args.dgamma);
    meet(sums + stride, args.dbeta);
  });
}

inline void norm_backward_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<NormSetting>();
  Context& context = call.context;
  const TensorRows x = rows_of(context, call.inputs[0]), dy = rows_of(context, call.inputs[4]);
  const Tensor gamma = plain_fp32(context, call.inputs[1]);
  const std::size_t rows = x.shape().rows(), columns = x.shape().columns();
  // The kernel's pointers serve both directions; backward only reads through them.
  auto* mean = setting.rms ? nullptr : const_cast<float*>(call.inputs[2].data<float>());
  auto* rstd = const_cast<float*>(call.inputs[3].data<float>());
  NormArgs args{.rows = rows, .columns = columns, .rms = setting.rms, .epsilon = setting.epsilon};
  args.x = operand(x);
  args.gamma = floats(gamma);
  args.mean = mean;
  args.rstd = rstd;
  args.dy = operand(dy);
  args.dx = target(call.outputs[0]);
  const RowSegments segments(call.sequences, rows);
  args.segments = segments.get();
  args.dgamma = call.outputs[1].mutable_data<float>();
  args.dbeta = call.outputs[2].mutable_data<float>();
  if (norm_gradients_meet(context, args)) return norm_gradients_at_once(context, args);
  for_ranges(context, rows, columns * 6, [&](std::size_t begin, std::size_t end) {
    context.kernels().norm.backward(norm_rows(args, begin, end));
  });
  constexpr std::size_t group = 16;
  for_ranges(context, (columns + group - 1) / group, rows * group * 2,
             [&](std::size_t begin, std::size_t end) {
               NormArgs own = args;
               own.first_column = begin * group;
               own.column_count = (std::min)(columns, end * group) - begin * group;
               context.kernels().norm.backward_parameters(own);
             });
}

inline void norm_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

inline constexpr Operator norm_backward{.name = "norm backward",
                                        .min_inputs = 5,
                                        .max_inputs = 5,
                                        .outputs = 3,
                                        .shape = &detail::norm_backward_shape,
                                        .host = &detail::norm_backward_host};

inline constexpr Operator norm{.name = "norm",
                               .min_inputs = 2,
                               .max_inputs = 3,
                               .outputs = 3,
                               .keeps_inputs = 3,
                               .keeps_outputs = 6,
                               .batch_inputs = 1,
                               .shape = &detail::norm_shape,
                               .host = &detail::norm_host,
                               .gradient = &detail::norm_gradient,
                               .wide_gradients = true,
                               .built_in_samples = true};

}  // namespace ops

inline void detail::norm_gradient(const GradientCall& call) {
  const Outputs gradients = run(
      call.context, ops::norm_backward, call.attributes,
      {call.inputs[0], call.inputs[1], call.outputs[1], call.outputs[2], call.output_gradients[0]},
      call.sequences);
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    if (call.wanted[i]) call.input_gradients[i].values = gradients[i];
}

}  // namespace SOMA_NAMESPACE
