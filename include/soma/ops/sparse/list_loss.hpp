#pragma once
// Losses of rows of logits with lists of labels: softmax cross entropy in which each of a row's n
// labels has the share 1 / n, and binary cross entropy of every column. Over the logits of all
// classes they are the exact losses; over a chosen set of classes they are sampled losses. A row
// without labels counts 0 in the first loss, and has zeros for all classes in the second.

#include <soma/numeric/portable_math.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/optimizer/accumulate.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/sparse/table.hpp>
#include <soma/ops/support.hpp>
#include <soma/runtime/heap_vector.hpp>

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

inline constexpr std::string_view list_loss_name = "sparse::list_loss";

// Inputs: logits [B, S], offsets int64 [B + 1] and columns int32. The labels of row i are
// columns[offsets[i]] up to columns[offsets[i + 1]], ascending, each once. Outputs: the loss, one
// number, and the probabilities [B, S], which the gradient reads.
inline void list_loss_shape(const ShapeCall& call) {
  const Tensor &logits = call.inputs[0], &offsets = call.inputs[1], &columns = call.inputs[2];
  check_rank(list_loss_name, "logits", logits, 2);
  check_fp32(list_loss_name, "logits", logits);
  if (offsets.dtype() != DType::int64 || columns.dtype() != DType::int32)
    fail(error_id::tensor_dtype, list_loss_name, "offsets and columns",
         offsets.describe() + " and " + columns.describe(), "int64 and int32");
  check_shape(list_loss_name, "offsets", offsets, Shape{logits.size(0) + 1});
  check_rank(list_loss_name, "columns", columns, 1);
  call.outputs[0] = {Shape{}, DType::fp32};
  call.outputs[1] = {logits.shape(), DType::fp32};
}

// Checks lists of ascending numbers, each below width_of(its row). Error operator.value.
template <class WidthOf>
void check_label_lists(std::string_view operation, const Tensor& offsets, const Tensor& columns,
                       const WidthOf& width_of) {
  const auto refuse = [&](std::string_view argument, std::int64_t given, std::string_view wanted) {
    fail(error_id::operator_value, operation, argument, std::to_string(given), wanted);
  };
  const std::span<const std::int64_t> at = offsets.span<std::int64_t>();
  const std::span<const std::int32_t> all = columns.span<std::int32_t>();
  if (at.front() != 0 || static_cast<std::uint64_t>(at.back()) != all.size())
    refuse("offsets", at.back(), "0 to the number of columns");
  for (std::size_t i = 0; i + 1 < at.size(); ++i) {
    if (at[i + 1] < at[i] || at[i + 1] > at.back())
      refuse("offsets", at[i + 1], "ascending numbers");
    std::int64_t before = -1;
    for (std::int64_t k = at[i]; k < at[i + 1]; ++k) {
      const std::int64_t column = all[static_cast<std::size_t>(k)];
      if (column <= before || static_cast<std::uint64_t>(column) >= width_of(i))
        refuse("columns", column, "ascending numbers below the number of logits");
      before = column;
    }
  }
}
inline void check_label_columns(const Tensor& offsets, const Tensor& columns, std::size_t width) {
  check_label_lists(list_loss_name, offsets, columns, [&](std::size_t) { return width; });
}

// The sum of the rows' losses: within a shard in order, shards in the fixed tree; in double.
inline double tree_of_rows(const Segments& shards, std::span<const double> rows) {
  double waiting[12];  // a level each of a tree over 1024 shards
  std::size_t count = 0;
  for (std::size_t shard = 0; shard < shards.count; ++shard) {
    double sum = 0;
    for (std::size_t i = shards.bounds[shard]; i < shards.bounds[shard + 1]; ++i) sum += rows[i];
    waiting[count++] = sum;
    for (std::size_t left = shard; (left & 1) != 0; left >>= 1, --count)
      waiting[count - 2] += waiting[count - 1];
  }
  return waiting[0];
}

// The cross entropy of a row of logits with softmax `shares`, in which each label has the same
// share; 0 without labels or logits. log(sum) comes from the largest share, which is at least 1 /
// S.
inline double softmax_loss_of(std::span<const float> logits, const float* shares,
                              std::span<const std::int32_t> labels) {
  if (labels.empty() || logits.empty()) return 0;
  const auto best =
      static_cast<std::size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  const double total =
      static_cast<double>(logits[best]) - portable_log(static_cast<double>(shares[best]));
  double loss = 0;
  for (const std::int32_t label : labels)
    loss += total - static_cast<double>(logits[static_cast<std::size_t>(label)]);
  return loss / static_cast<double>(labels.size());
}

// The gradient times `scale`: (share - y / labels) * scale, zeros without labels.
inline void softmax_loss_gradient_of(std::span<const float> shares,
                                     std::span<const std::int32_t> labels, float scale, float* to) {
  if (labels.empty()) {
    std::fill(to, to + shares.size(), 0.0f);
    return;
  }
  for (std::size_t c = 0; c < shares.size(); ++c) to[c] = shares[c] * scale;
  const float share = scale / static_cast<float>(labels.size());
  for (const std::int32_t label : labels) to[label] -= share;
}

inline void list_loss_host(const OperatorCall& call) {
  Context& context = call.context;
  const auto& setting = call.attributes.as<ListLossSetting>();
  const Tensor logits = contiguous(context, call.inputs[0]);
  const Tensor offsets = contiguous(context, call.inputs[1]);
  const Tensor columns = contiguous(context, call.inputs[2]);
  const std::size_t rows = logits.size(0), width = logits.size(1);
  check_label_columns(offsets, columns, width);
  const Tensor& notes = call.outputs[1];
  const bool softmax = setting.loss == ListLoss::softmax;
  if (logits.elements() != 0)
    copy(softmax ? run(context, *context.built_in().softmax, SoftmaxSetting{false}, {logits})[0]
                 : run(context, context.built_in().of(Unary::sigmoid), {}, {logits})[0],
         notes);
  const Tensor soft = softmax || logits.elements() == 0
                          ? Tensor()
                          : run(context, context.built_in().of(Unary::softplus), {}, {logits})[0];
  HeapVector<double> losses(rows, context.heap());
  const std::int64_t* at = offsets.data<std::int64_t>();
  const std::int32_t* column = columns.data<std::int32_t>();
  for_ranges(context, rows, width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const float* z = logits.data<float>() + i * width;
      const std::span<const std::int32_t> labels(column + at[i],
                                                 static_cast<std::size_t>(at[i + 1] - at[i]));
      double loss = 0;
      if (softmax) {
        loss = softmax_loss_of({z, width}, notes.data<float>() + i * width, labels);
      } else {
        // log(1 + exp z) - z y
        for (std::size_t c = 0; c < width; ++c)
          loss += static_cast<double>(soft.data<float>()[i * width + c]);
        for (const std::int32_t label : labels) loss -= static_cast<double>(z[label]);
      }
      losses[i] = loss;
    }
  });
  double sum = tree_of_rows(RowSegments(call.sequences, rows).get(), {losses.data(), rows});
  if (setting.reduction == LossReduction::mean)
    sum /= static_cast<double>((std::max)(rows, std::size_t{1}));
  *call.outputs[0].mutable_data<float>() = static_cast<float>(sum);
}

// dlogits = (p - y) * dloss, divided by B for a mean.
inline void list_loss_gradient(const GradientCall& call) {
  Context& context = call.context;
  const auto& setting = call.attributes.as<ListLossSetting>();
  const Tensor& notes = call.outputs[1];
  const Tensor offsets = contiguous(context, call.inputs[1]);
  const Tensor columns = contiguous(context, call.inputs[2]);
  const std::size_t rows = notes.size(0), width = notes.size(1);
  const float given = *contiguous(context, call.output_gradients[0]).data<float>();
  const float scale = setting.reduction == LossReduction::mean
                          ? given / static_cast<float>((std::max)(rows, std::size_t{1}))
                          : given;
  const Tensor gradient = Tensor::empty(context, notes.shape());
  float* out = gradient.mutable_data<float>();
  const std::int64_t* at = offsets.data<std::int64_t>();
  const std::int32_t* column = columns.data<std::int32_t>();
  const bool softmax = setting.loss == ListLoss::softmax;
  for_ranges(context, rows, width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const float* p = notes.data<float>() + i * width;
      float* to = out + i * width;
      const std::span<const std::int32_t> labels(column + at[i],
                                                 static_cast<std::size_t>(at[i + 1] - at[i]));
      if (softmax) {
        softmax_loss_gradient_of({p, width}, labels, scale, to);
        continue;
      }
      for (std::size_t c = 0; c < width; ++c) to[c] = p[c] * scale;
      for (const std::int32_t label : labels) to[label] -= scale;
    }
  });
  call.input_gradients[0] = {gradient, {}};
}

}  // namespace detail

namespace ops {

inline constexpr Operator list_loss{.name = detail::list_loss_name,
                                    .min_inputs = 3,
                                    .max_inputs = 3,
                                    .outputs = 2,
                                    .keeps_inputs = 6,
                                    .keeps_outputs = 2,
                                    .batch_inputs = 1,
                                    .shape = &detail::list_loss_shape,
                                    .host = &detail::list_loss_host,
                                    .gradient = &detail::list_loss_gradient,
                                    .wide_gradients = true,
                                    .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
