#pragma once
// Softmax cross entropy of bags of logits with lists of labels: each bag is a row of its own
// length, whose labels are positions in it. It is the loss for sets of classes that each sample
// chooses for itself; with all classes in every bag it equals list_loss. Needs add_sparse(context).

#include <soma/kernels/table.hpp>
#include <soma/ops/sparse/list_loss.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

inline constexpr std::string_view bag_loss_name = "sparse::bag_loss";

// Inputs: logits fp32 [n], whose sequences are the B bags, offsets int64 [B + 1] and places int32.
// The labels of bag b are places[offsets[b]] up to places[offsets[b + 1]], ascending, each once and
// below the length of the bag. Outputs: the loss, one number, and the softmax of each bag [n],
// which the gradient reads.
inline void bag_loss_shape(const ShapeCall& call) {
  const Tensor &logits = call.inputs[0], &offsets = call.inputs[1], &places = call.inputs[2];
  check_rank(bag_loss_name, "logits", logits, 1);
  check_fp32(bag_loss_name, "logits", logits);
  check_sequences(bag_loss_name, logits, call.sequences);
  check_no_padding(bag_loss_name, call.sequences);
  if (offsets.dtype() != DType::int64 || places.dtype() != DType::int32)
    fail(error_id::tensor_dtype, bag_loss_name, "offsets and places",
         offsets.describe() + " and " + places.describe(), "int64 and int32");
  check_shape(bag_loss_name, "offsets", offsets, Shape{call.sequences.count() + 1});
  check_rank(bag_loss_name, "places", places, 1);
  call.outputs[0] = {Shape{}, DType::fp32};
  call.outputs[1] = {logits.shape(), DType::fp32};
}

// Calls each(bag, its first logit, its length, its labels) on several threads.
template <class Each>
void for_bags(Context& context, const Sequences& bags, const Tensor& offsets, const Tensor& places,
              const Each& each) {
  const std::int64_t* at = offsets.data<std::int64_t>();
  const std::int32_t* place = places.data<std::int32_t>();
  const UnevenRanges ranges(context, bags.count(), operations_worth_a_task,
                            [&](std::size_t bag) { return bags.length(bag) * 16 + 1; });
  ranges.run(context, [&](std::size_t begin, std::size_t end, std::size_t) {
    for (std::size_t bag = begin; bag < end; ++bag)
      each(bag, bags.begin(bag), bags.length(bag),
           std::span<const std::int32_t>(place + at[bag],
                                         static_cast<std::size_t>(at[bag + 1] - at[bag])));
  });
}

inline void bag_loss_host(const OperatorCall& call) {
  Context& context = call.context;
  const Tensor logits = contiguous(context, call.inputs[0]);
  const Tensor offsets = contiguous(context, call.inputs[1]);
  const Tensor places = contiguous(context, call.inputs[2]);
  const Sequences& bags = call.sequences;
  check_label_lists(bag_loss_name, offsets, places,
                    [&](std::size_t bag) { return bags.length(bag); });
  const float* z = logits.data<float>();
  float* shares = call.outputs[1].mutable_data<float>();
  HeapVector<double> losses(bags.count(), context.heap());
  for_bags(
      context, bags, offsets, places,
      [&](std::size_t bag, std::size_t first, std::size_t length, auto labels) {
        if (length != 0)
          context.kernels().norm.softmax({.rows = 1,
                                          .columns = length,
                                          .x = {.data = z + first, .row_stride = length},
                                          .y = {.data = shares + first, .row_stride = length}});
        losses[bag] = softmax_loss_of({z + first, length}, shares + first, labels);
      });
  const Segments shards{bags.sequence_bounds().data(), bags.shards()};
  double sum = tree_of_rows(shards, {losses.data(), bags.count()});
  if (call.attributes.as<BagLossSetting>().reduction == LossReduction::mean)
    sum /= static_cast<double>((std::max)(bags.count(), std::size_t{1}));
  *call.outputs[0].mutable_data<float>() = static_cast<float>(sum);
}

inline void bag_loss_gradient(const GradientCall& call) {
  Context& context = call.context;
  const Tensor& shares = call.outputs[1];
  const Tensor offsets = contiguous(context, call.inputs[1]);
  const Tensor places = contiguous(context, call.inputs[2]);
  const std::size_t count = call.sequences.count();
  const float given = *contiguous(context, call.output_gradients[0]).data<float>();
  const bool mean = call.attributes.as<BagLossSetting>().reduction == LossReduction::mean;
  const float scale = mean ? given / static_cast<float>((std::max)(count, std::size_t{1})) : given;
  const Tensor gradient = Tensor::empty(context, shares.shape());
  float* to = gradient.mutable_data<float>();
  for_bags(
      context, call.sequences, offsets, places,
      [&](std::size_t, std::size_t first, std::size_t length, auto labels) {
        softmax_loss_gradient_of({shares.data<float>() + first, length}, labels, scale, to + first);
      });
  call.input_gradients[0] = {gradient, {}};
}

}  // namespace detail

namespace ops {

inline constexpr Operator bag_loss{.name = detail::bag_loss_name,
                                   .min_inputs = 3,
                                   .max_inputs = 3,
                                   .outputs = 2,
                                   .keeps_inputs = 6,
                                   .keeps_outputs = 2,
                                   .shape = &detail::bag_loss_shape,
                                   .host = &detail::bag_loss_host,
                                   .gradient = &detail::bag_loss_gradient,
                                   .wide_gradients = true,
                                   .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
