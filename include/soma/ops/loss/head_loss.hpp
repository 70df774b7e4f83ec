#pragma once
// head_loss: the cross entropy of a model's head, logits = x weight^T + bias, whose logits
// [rows, classes] never exist as a whole. Both directions make them for 4,096 classes at a time:
// forward keeps the log-sum-exp of each row; backward makes a panel's logits again, turns them into
// their gradient in place, completes the panel's rows of the weight's gradient in the order of the
// batch's shards, and adds the panel's share to the gradient of x, in the order of panels.
//
// Inputs:
//   x        [rows, C], of any floating type
//   weight   [V, C]
//   labels   int32 or int64 [rows]: the class of each row, or ignore_index. With offsets: the
//            classes of all rows, ascending within a row, each once
//   bias     [V], or left out
//   offsets  int64 [rows + 1]: row i has labels[offsets[i]] up to labels[offsets[i + 1]], of which
//            each has the same share; or left out
// Outputs: the loss, fp32, as of cross_entropy: the mean over the rows that count, their sum, or
// one number for each row; and [rows, 2], the log-sum-exp in two terms (CrossEntropyArgs).
//
// Rows without a label have loss 0 and gradient 0, and cost nothing. Logits, sums and dx are
// fp32; gradients of logits have the type of x where that has 16 bits, else fp32. Memory:
// 16 KiB for each row, and in backward the gradient of x in fp32.
//
// Errors tensor.rank, tensor.shape, tensor.dtype, operator.value (a label that is no class, lists
// that do not ascend).

#include <soma/ops/loss/class_panels.hpp>
#include <soma/ops/loss/loss.hpp>
#include <soma/ops/loss/settings.hpp>
#include <soma/ops/rows/reduce.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

namespace SOMA_NAMESPACE {

namespace detail {

inline void head_loss_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<CrossEntropySetting>();
  const HeadInputs inputs(call.inputs, 3);
  const Tensor &x = inputs.x, &weight = inputs.weight;
  check_rank("head_loss", "x", x, 2);
  check_floating("head_loss", "x", x);
  check_rank("head_loss", "weight", weight, 2);
  check_floating("head_loss", "weight", weight);
  if (weight.size(1) != x.size(1) || weight.size(0) == 0)
    fail(error_id::tensor_shape, "head_loss", "weight", weight.describe(),
         "at least one row as wide as x, " + x.describe());
  check_index_type("head_loss", "labels", inputs.labels);
  if (inputs.bias.defined()) check_shape("head_loss", "bias", inputs.bias, Shape{weight.size(0)});
  if (inputs.offsets.defined()) {
    check_rank("head_loss", "labels", inputs.labels, 1);
    if (inputs.offsets.dtype() != DType::int64)
      fail(error_id::tensor_dtype, "head_loss", "offsets", inputs.offsets.describe(), "int64");
    check_shape("head_loss", "offsets", inputs.offsets, Shape{x.size(0) + 1});
  } else {
    check_shape("head_loss", "labels", inputs.labels, Shape{x.size(0)});
  }
  call.outputs[0] = {setting.reduction == LossReduction::none ? Shape{x.size(0)} : Shape{},
                     DType::fp32};
  call.outputs[1] = {Shape{x.size(0), 2}, DType::fp32};
}

inline double head_loss_products(const OperatorCall& call, double products) {
  return products * 2.0 * static_cast<double>(call.inputs[0].elements()) *
         static_cast<double>(call.inputs[1].size(0));
}
inline double head_loss_operations(const OperatorCall& call) { return head_loss_products(call, 1); }

// The sums of all rows, panel by panel.
inline HeapVector<RowSums> head_sums(Context& context, const LabelledRows& rows,
                                     ClassPanels& panels, bool differences) {
  HeapVector<RowSums> sums(rows.count(), context.heap());
  HeapVector<ClassSums> own(rows.count(), context.heap());
  panels.for_each([&](std::size_t first, std::size_t classes, const float* logits) {
    for_ranges(context, rows.count(), classes * 16, [&](std::size_t begin, std::size_t end) {
      const float* const from = logits + begin * panels.stride();
      context.kernels().loss.class_sums({.rows = end - begin,
                                         .columns = classes,
                                         .logits = {.data = from, .row_stride = panels.stride()},
                                         .differences = differences,
                                         .sums = own.data() + begin});
      for (std::size_t i = begin; i < end; ++i) {
        sums[i].add(own[i], classes);
        for (const std::int64_t label : rows.labels(i, first, classes))
          sums[i].add_label(logits[i * panels.stride() + static_cast<std::size_t>(label) - first]);
      }
    });
  });
  return sums;
}

inline void head_loss_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<CrossEntropySetting>();
  Context& context = call.context;
  const HeadInputs inputs(call.inputs, 3);
  const LabelledRows rows(context, inputs, setting, call.sequences);
  ClassPanels panels(context, rows.x(), inputs.weight, inputs.bias);
  const auto smoothing = static_cast<double>(setting.label_smoothing);
  const HeapVector<RowSums> sums = head_sums(context, rows, panels, smoothing != 0);
  const std::size_t all = inputs.x.size(0);
  const bool each = setting.reduction == LossReduction::none;
  const Tensor losses = each ? call.outputs[0] : Tensor::empty(context, Shape{all});
  auto* const loss = losses.mutable_data<float>();
  auto* const log_sums = call.outputs[1].mutable_data<float>();
  std::fill_n(loss, all, 0.0f);
  std::fill_n(log_sums, 2 * all, 0.0f);
  for (std::size_t i = 0; i < rows.count(); ++i) {
    const std::size_t row = rows[i];
    loss[row] = static_cast<float>(sums[i].loss(rows.labels(i).size(), smoothing));
    log_sums[2 * row] = static_cast<float>(sums[i].largest());
    log_sums[2 * row + 1] = static_cast<float>(sums[i].log_sum());
  }
  if (!each)
    *call.outputs[0].mutable_data<float>() =
        ordered_sum(context, losses, Shape{all}, call.sequences) /
        loss_denominator(setting.reduction, setting.denominator, rows.count());
}

// ---- backward

// Inputs x, weight, labels, log_sum_exp, dloss, bias, offsets. Outputs dx, dweight, dbias, empty
// where they are not wanted.
inline void head_loss_backward_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<HeadGradientSetting>();
  const Tensor &x = call.inputs[0], &weight = call.inputs[1];
  const auto wanted = [](bool is_wanted, const Shape& shape, DType dtype) -> TensorSpec {
    return {is_wanted ? shape : Shape{0}, dtype};
  };
  call.outputs[0] = wanted(setting.x, x.shape(), setting.x_type.value_or(x.dtype()));
  call.outputs[1] =
      wanted(setting.weight, weight.shape(), setting.weight_type.value_or(DType::fp32));
  call.outputs[2] = wanted(setting.bias, Shape{weight.size(0)}, DType::fp32);
}

// The gradients of a panel's logits, in place of the logits.
class LogitGradients {
 public:
  LogitGradients(Context& context, const LabelledRows& rows, const CrossEntropySetting& setting,
                 const Tensor& log_sums, const Tensor& dloss, std::size_t classes)
      : context_(context),
        rows_(rows),
        smoothing_(setting.label_smoothing),
        classes_(classes),
        dtype_(size_of(rows.x().dtype()) == 2 ? rows.x().dtype() : DType::fp32),
        labels_(rows.count(), context.heap()),
        log_sums_(2 * rows.count(), context.heap()),
        factors_(rows.count(), context.heap()) {
    const bool each = setting.reduction == LossReduction::none;
    const float divisor = loss_denominator(setting.reduction, setting.denominator, rows.count());
    for (std::size_t i = 0; i < rows.count(); ++i) {
      const std::span<const std::int64_t> own = rows.labels(i);
      labels_[i] = own.size() == 1 ? own[0] : no_label;
      several_ |= own.size() > 1;
      log_sums_[2 * i] = log_sums.data<float>()[2 * rows[i]];
      log_sums_[2 * i + 1] = log_sums.data<float>()[2 * rows[i] + 1];
      factors_[i] = each ? dloss.data<float>()[rows[i]] : dloss.data<float>()[0] / divisor;
    }
    if (several_ && dtype_ != DType::fp32)
      fail(error_id::tensor_dtype, "head_loss", "x", rows.x().tensor().describe(),
           "fp32, where rows have several labels");
  }

  // Overwrites logits whose rows lie `stride` numbers apart.
  MatrixOperand make(std::size_t first, std::size_t classes, float* logits, std::size_t stride) {
    const MatrixTarget to{
        .data = logits, .dtype = dtype_, .row_stride = stride * sizeof(float) / size_of(dtype_)};
    for_ranges(context_, rows_.count(), classes * 16, [&](std::size_t begin, std::size_t end) {
      context_.kernels().loss.cross_entropy_backward(
          {.rows = end - begin,
           .columns = classes,
           .first_class = first,
           .classes = classes_,
           .logits = {.data = logits + begin * stride, .row_stride = stride},
           .labels = labels_.data() + begin,
           .ignore_index = (std::numeric_limits<std::int64_t>::min)(),
           .smoothing = smoothing_,
           .log_sum_exp = log_sums_.data() + 2 * begin,
           .factors = factors_.data() + begin,
           .dlogits = part(to, begin, 0)});
      for (std::size_t i = begin; several_ && i < end; ++i)
        subtract_shares(i, first, classes, logits + i * stride);
    });
    return {.data = logits, .dtype = dtype_, .row_stride = to.row_stride};
  }

 private:
  static constexpr std::int64_t no_label = -1;

  void subtract_shares(std::size_t i, std::size_t first, std::size_t classes, float* row) const {
    if (labels_[i] != no_label) return;
    const float share = (1 - smoothing_) * factors_[i] / static_cast<float>(rows_.labels(i).size());
    for (const std::int64_t label : rows_.labels(i, first, classes))
      row[static_cast<std::size_t>(label) - first] -= share;
  }

  Context& context_;
  const LabelledRows& rows_;
  float smoothing_;
  std::size_t classes_;
  DType dtype_;
  bool several_ = false;
  HeapVector<std::int64_t> labels_;  // no_label: none, or several
  HeapVector<float> log_sums_, factors_;
};

inline void clear(const Tensor& tensor) {
  if (tensor.elements() != 0) std::memset(tensor.mutable_raw(), 0, tensor.bytes());
}

// The fp32 sums of the rows that have labels, as rows of the result; the others are 0.
inline void spread_rows(Context& context, const Tensor& sums, const LabelledRows& rows,
                        const Tensor& result) {
  if (!rows.complete()) clear(result);
  const TensorRows from = rows_of(context, sums);
  const MatrixTarget to = target(result);
  for_ranges(context, rows.count(), sums.size(1), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      context.kernels().element.unary({.rows = 1,
                                       .columns = sums.size(1),
                                       .x = part(operand(from), i, 0),
                                       .y = part(to, rows[i], 0)});
  });
}

inline void head_loss_backward_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<HeadGradientSetting>();
  Context& context = call.context;
  const HeadInputs inputs(call.inputs, 5);
  const Tensor &dx = call.outputs[0], &dweight = call.outputs[1], &dbias = call.outputs[2];
  const LabelledRows rows(context, inputs, setting.loss, call.sequences);
  if (rows.count() == 0) {
    for (const Tensor& output : call.outputs) clear(output);
    return;
  }
  ClassPanels panels(context, rows.x(), inputs.weight, inputs.bias);
  LogitGradients gradients(context, rows, setting.loss, contiguous(context, call.inputs[3]),
                           contiguous(context, call.inputs[4]), panels.classes());
  const std::size_t width = inputs.x.size(1);
  const bool in_place = rows.complete() && dx.dtype() == DType::fp32;
  Tensor sums = dx;
  if (setting.x && !in_place) sums = Tensor::empty(context, Shape{rows.count(), width});
  panels.for_each([&](std::size_t first, std::size_t classes, float* logits) {
    const MatrixOperand d = gradients.make(first, classes, logits, panels.stride());
    if (setting.weight) {
      GemmArgs args{.m = classes, .n = width, .k = rows.count()};
      args.a = transposed(d);
      args.b = operand(rows.x());
      args.c = part(target(dweight), first, 0);
      args.segments = rows.segments();
      // It is read once all gradients are complete; a small one may still be in the cache then.
      args.stream_c = classes * width * size_of(dweight.dtype()) > (std::size_t{2} << 20);
      multiply(context, args);
    }
    if (setting.bias)
      column_sums(context, {.rows = rows.count(),
                            .columns = classes,
                            .x = d,
                            .segments = rows.segments(),
                            .out = dbias.mutable_data<float>() + first});
    if (setting.x) {
      GemmArgs args{.m = rows.count(), .n = width, .k = classes};
      args.a = d;
      args.b = panels.weight(first);
      args.c = target(sums);
      args.epilogue.accumulate = first != 0;
      multiply(context, args);
    }
  });
  if (setting.x && !in_place) spread_rows(context, sums, rows, dx);
}

inline double head_loss_backward_operations(const OperatorCall& call) {
  const auto& setting = call.attributes.as<HeadGradientSetting>();
  return head_loss_products(call, 1 + (setting.x ? 1 : 0) + (setting.weight ? 1 : 0));
}

inline void head_loss_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

inline constexpr Operator head_loss_backward{.name = "head_loss backward",
                                             .min_inputs = 5,
                                             .max_inputs = 7,
                                             .outputs = 3,
                                             .shape = &detail::head_loss_backward_shape,
                                             .host = &detail::head_loss_backward_host,
                                             .operations = &detail::head_loss_backward_operations};

inline constexpr Operator head_loss{.name = "head_loss",
                                    .min_inputs = 3,
                                    .max_inputs = 5,
                                    .outputs = 2,
                                    .keeps_inputs = 31,
                                    .keeps_outputs = 2,
                                    .batch_inputs = 1,
                                    .shape = &detail::head_loss_shape,
                                    .host = &detail::head_loss_host,
                                    .gradient = &detail::head_loss_gradient,
                                    .wide_gradients = true,
                                    .built_in_samples = true,
                                    .operations = &detail::head_loss_operations};

}  // namespace ops

inline void detail::head_loss_gradient(const GradientCall& call) {
  const auto wanted = [&](std::size_t input) {
    return input < call.wanted.size() && call.wanted[input];
  };
  const HeadInputs inputs(call.inputs, 3);
  const Outputs gradients =
      run(call.context, ops::head_loss_backward,
          HeadGradientSetting{.loss = call.attributes.as<CrossEntropySetting>(),
                              .x = wanted(0),
                              .weight = wanted(1),
                              .bias = wanted(3),
                              .x_type = call.sum_type(0),
                              .weight_type = call.sum_type(1)},
          {inputs.x, inputs.weight, inputs.labels, call.outputs[1], call.output_gradients[0],
           inputs.bias, inputs.offsets},
          call.sequences);
  if (wanted(0)) call.input_gradients[0].values = gradients[0];
  if (wanted(1)) call.input_gradients[1].values = gradients[1];
  if (wanted(3)) call.input_gradients[3].values = gradients[2];
}

}  // namespace SOMA_NAMESPACE
