#pragma once
// Softmax cross entropy over all classes with lists of labels, from the input of the last layer.
// The logits [B, C] are never stored as a whole, only those of a panel of classes at a time;
// backward computes them again. It is the exact loss that sampled losses approximate.

#include <soma/numeric/portable_math.hpp>
#include <soma/ops/sparse/list_loss.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

inline constexpr std::string_view full_softmax_name = "sparse::full_softmax";
// The classes of a panel: of [B, C] logits, only [B, panel] are stored at a time.
inline constexpr std::size_t softmax_panel = 4096;

// Inputs h [B, D], weight [C, D], bias [C], offsets int64 [B + 1] and classes int32 as in
// list_loss. Outputs the loss, and for each row log(sum(exp(logits))), which the gradient reads.
inline void full_softmax_shape(const ShapeCall& call) {
  const Tensor &h = call.inputs[0], &weight = call.inputs[1], &bias = call.inputs[2];
  check_rank(full_softmax_name, "h", h, 2);
  check_fp32(full_softmax_name, "h", h);
  check_rank(full_softmax_name, "weight", weight, 2);
  check_fp32(full_softmax_name, "weight", weight);
  check_fp32(full_softmax_name, "bias", bias);
  check_shape(full_softmax_name, "bias", bias, Shape{weight.size(0)});
  if (weight.size(1) != h.size(1) || weight.size(0) == 0)
    fail(error_id::tensor_shape, full_softmax_name, "weight", weight.describe(),
         "at least one row as wide as h, " + h.describe());
  const Tensor &offsets = call.inputs[3], &classes = call.inputs[4];
  if (offsets.dtype() != DType::int64 || classes.dtype() != DType::int32)
    fail(error_id::tensor_dtype, full_softmax_name, "offsets and classes",
         offsets.describe() + " and " + classes.describe(), "int64 and int32");
  check_shape(full_softmax_name, "offsets", offsets, Shape{h.size(0) + 1});
  check_rank(full_softmax_name, "classes", classes, 1);
  call.outputs[0] = {Shape{}, DType::fp32};
  call.outputs[1] = {Shape{h.size(0)}, DType::fp32};
}

// Calls each(first class, logits, softmax of these) for each panel.
template <class Each>
void for_softmax_panels(Context& context, const Tensor& h, const Tensor& weight, const Tensor& bias,
                        const Sequences& sequences, const Each& each) {
  for (std::size_t first = 0; first < weight.size(0); first += softmax_panel) {
    const std::size_t end = (std::min)(first + softmax_panel, weight.size(0));
    const Tensor logits =
        run(context, *context.built_in().linear, LinearSetting{},
            {h, weight.slice(0, first, end), bias.slice(0, first, end)}, sequences)[0];
    each(first, logits,
         run(context, *context.built_in().softmax, SoftmaxSetting{false}, {logits})[0]);
  }
}

// log_sum_exp of a row of a panel: the sum of the exponentials is that of the largest logit,
// divided by the largest probability.
inline double log_sum_of(std::span<const float> logits, std::span<const float> shares) {
  const auto best =
      static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  return static_cast<double>(logits[best]) - portable_log(static_cast<double>(shares[best]));
}

// Labels of row i that lie in a panel.
inline std::span<const std::int32_t> labels_in(std::span<const std::int32_t> labels,
                                               std::size_t first, std::size_t width) {
  const auto begin =
      std::lower_bound(labels.begin(), labels.end(), static_cast<std::int32_t>(first));
  const auto end = std::lower_bound(begin, labels.end(), static_cast<std::int64_t>(first + width));
  return labels.subspan(static_cast<std::size_t>(begin - labels.begin()),
                        static_cast<std::size_t>(end - begin));
}

inline std::span<const std::int32_t> labels_of(const Tensor& offsets, const Tensor& classes,
                                               std::size_t row) {
  const std::span<const std::int64_t> at = offsets.span<std::int64_t>();
  return classes.span<std::int32_t>().subspan(static_cast<std::size_t>(at[row]),
                                              static_cast<std::size_t>(at[row + 1] - at[row]));
}

inline void full_softmax_host(const OperatorCall& call) {
  Context& context = call.context;
  const auto& setting = call.attributes.as<ListLossSetting>();
  const Tensor h = contiguous(context, call.inputs[0]), weight = call.inputs[1],
               bias = call.inputs[2];
  const Tensor offsets = contiguous(context, call.inputs[3]);
  const Tensor classes = contiguous(context, call.inputs[4]);
  check_label_columns(offsets, classes, weight.size(0));
  const std::size_t rows = h.size(0);
  HeapVector<double> most(rows, context.heap()), sums(rows, context.heap()),
      chosen(rows, context.heap());
  std::fill(sums.begin(), sums.end(), 0.0);
  std::fill(chosen.begin(), chosen.end(), 0.0);
  for_softmax_panels(
      context, h, weight, bias, call.sequences,
      [&](std::size_t first, const Tensor& logits, const Tensor& shares) {
        const std::size_t width = logits.size(1);
        for_ranges(context, rows, width, [&](std::size_t begin, std::size_t end) {
          for (std::size_t i = begin; i < end; ++i) {
            const std::span<const float> z = logits.span<float>().subspan(i * width, width);
            const double log_sum = log_sum_of(z, shares.span<float>().subspan(i * width, width));
            const double top = first == 0 ? log_sum : (std::max)(most[i], log_sum);
            sums[i] = (first == 0 ? 0.0 : sums[i] * portable_exp(most[i] - top)) +
                      portable_exp(log_sum - top);
            most[i] = top;
            for (const std::int32_t label : labels_in(labels_of(offsets, classes, i), first, width))
              chosen[i] += static_cast<double>(z[static_cast<std::size_t>(label) - first]);
          }
        });
      });
  HeapVector<double> losses(rows, context.heap());
  float* log_sums = call.outputs[1].mutable_data<float>();
  for (std::size_t i = 0; i < rows; ++i) {
    const double log_sum = most[i] + portable_log(sums[i]);
    const auto count = static_cast<double>(labels_of(offsets, classes, i).size());
    log_sums[i] = static_cast<float>(log_sum);
    losses[i] = count == 0 ? 0 : log_sum - chosen[i] / count;
  }
  double sum = tree_of_rows(RowSegments(call.sequences, rows).get(), {losses.data(), rows});
  if (setting.reduction == LossReduction::mean)
    sum /= static_cast<double>((std::max)(rows, std::size_t{1}));
  *call.outputs[0].mutable_data<float>() = static_cast<float>(sum);
}

inline void full_softmax_gradient(const GradientCall& call) {
  Context& context = call.context;
  const auto& setting = call.attributes.as<ListLossSetting>();
  const Tensor h = contiguous(context, call.inputs[0]), weight = call.inputs[1],
               bias = call.inputs[2];
  const Tensor offsets = contiguous(context, call.inputs[3]);
  const Tensor classes = contiguous(context, call.inputs[4]);
  const Tensor& log_sums = call.outputs[1];
  const std::size_t rows = h.size(0);
  const float given = *contiguous(context, call.output_gradients[0]).data<float>();
  const float scale = setting.reduction == LossReduction::mean
                          ? given / static_cast<float>((std::max)(rows, std::size_t{1}))
                          : given;
  const Tensor dh = Tensor::zeros(context, h.shape());
  const Tensor dweight = Tensor::empty(context, weight.shape());
  const Tensor dbias = Tensor::empty(context, bias.shape());
  for_softmax_panels(
      context, h, weight, bias, call.sequences,
      [&](std::size_t first, const Tensor& logits, const Tensor& shares) {
        const std::size_t width = logits.size(1);
        const Tensor dlogits = Tensor::empty(context, logits.shape());
        float* to = dlogits.mutable_data<float>();
        for_ranges(context, rows, width, [&](std::size_t begin, std::size_t end) {
          for (std::size_t i = begin; i < end; ++i) {
            const std::span<const float> z = logits.span<float>().subspan(i * width, width);
            const std::span<const float> p = shares.span<float>().subspan(i * width, width);
            const std::span<const std::int32_t> labels = labels_of(offsets, classes, i);
            const double log_sum = static_cast<double>(log_sums.data<float>()[i]);
            const float factor =
                labels.empty()
                    ? 0.0f
                    : static_cast<float>(portable_exp(log_sum_of(z, p) - log_sum)) * scale;
            for (std::size_t c = 0; c < width; ++c) to[i * width + c] = p[c] * factor;
            const float share = scale / static_cast<float>(labels.size());
            for (const std::int32_t label : labels_in(labels, first, width))
              to[i * width + static_cast<std::size_t>(label) - first] -= share;
          }
        });
        const std::size_t end = first + width;
        const Operator& matmul = *context.built_in().matmul;
        copy(run(context, matmul, MatmulSetting{.transpose_a = true, .over_rows = true},
                 {dlogits, h}, call.sequences)[0],
             dweight.slice(0, first, end));
        copy(run(context, *context.built_in().reduce, ReduceSetting{.dimensions = 1}, {dlogits},
                 call.sequences)[0]
                 .reshape(Shape{width}),
             dbias.slice(0, first, end));
        add_into(context, dh,
                 run(context, matmul, MatmulSetting{}, {dlogits, weight.slice(0, first, end)})[0]);
      });
  if (call.wanted[0]) call.input_gradients[0] = {dh, {}};
  if (call.wanted[1]) call.input_gradients[1] = {dweight, {}};
  if (call.wanted[2]) call.input_gradients[2] = {dbias, {}};
}

}  // namespace detail

namespace ops {

inline constexpr Operator full_softmax{.name = detail::full_softmax_name,
                                       .min_inputs = 5,
                                       .max_inputs = 5,
                                       .outputs = 2,
                                       .keeps_inputs = 31,
                                       .keeps_outputs = 2,
                                       .composite = true,
                                       .batch_inputs = 1,
                                       .shape = &detail::full_softmax_shape,
                                       .host = &detail::full_softmax_host,
                                       .gradient = &detail::full_softmax_gradient,
                                       .wide_gradients = true,
                                       .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
