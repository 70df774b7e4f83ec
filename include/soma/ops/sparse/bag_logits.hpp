#pragma once
// Logits of the classes that each sample chooses for itself: for sample b and each class id of its
// bag, h[b] times row id of the weight, plus the bias of id. The cost of forward and backward grows
// with the ids and not with the classes. Needs add_sparse(context).

#include <soma/kernels/sparse/args.hpp>
#include <soma/ops/sparse/embedding_bag.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

inline constexpr std::string_view bag_logits_name = "sparse::bag_logits";

// Inputs ids int32 [n], h [B, D], weight [C, D] and bias [C, 1], all fp32. The sequences of the
// call are the B bags of ids. The output is fp32 [n].
inline void bag_logits_shape(const ShapeCall& call) {
  const Tensor &ids = call.inputs[0], &h = call.inputs[1], &weight = call.inputs[2],
               &bias = call.inputs[3];
  check_rank(bag_logits_name, "ids", ids, 1);
  if (ids.dtype() != DType::int32)
    fail(error_id::tensor_dtype, bag_logits_name, "ids", ids.describe(), "int32");
  check_sequences(bag_logits_name, ids, call.sequences);
  check_no_padding(bag_logits_name, call.sequences);
  check_rank(bag_logits_name, "h", h, 2);
  check_fp32(bag_logits_name, "h", h);
  check_rank(bag_logits_name, "weight", weight, 2);
  check_fp32(bag_logits_name, "weight", weight);
  check_fp32(bag_logits_name, "bias", bias);
  check_shape(bag_logits_name, "bias", bias, Shape{weight.size(0), 1});
  check_shape(bag_logits_name, "h", h, Shape{call.sequences.count(), weight.size(1)});
  call.outputs[0] = {ids.shape(), DType::fp32};
}

inline void bag_logits_host(const OperatorCall& call) {
  Context& context = call.context;
  const Tensor ids = contiguous(context, call.inputs[0]), h = contiguous(context, call.inputs[1]);
  const Tensor weight = contiguous(context, call.inputs[2]);
  const Tensor bias = contiguous(context, call.inputs[3]);
  check_ids(weight, ids);
  const Sequences& bags = call.sequences;
  const BagDotsArgs args{.columns = weight.size(1),
                         .x = h.data<float>(),
                         .table = weight.data<float>(),
                         .bias = bias.data<float>(),
                         .ids = ids.data<std::int32_t>(),
                         .offsets = bags.offsets().data(),
                         .y = call.outputs[0].mutable_data<float>()};
  const SparseKernels& kernels = *sparse_table(context, bag_logits_name).kernels;
  const UnevenRanges ranges(context, bags.count(), operations_worth_a_task, [&](std::size_t bag) {
    return bags.length(bag) * (args.columns + 8) + 1;
  });
  ranges.run(context, [&](std::size_t begin, std::size_t end, std::size_t) {
    BagDotsArgs part = args;
    part.first = begin;
    part.last = end;
    kernels.bag_dots(part);
  });
}

// dh[b] is the sum of the weight rows of bag b, each times the gradient of its logit: an embedding
// bag. A weight row gets the h of every sample that chose it, weighted in the same way: the
// gradient of an embedding bag.
inline void bag_logits_gradient(const GradientCall& call) {
  Context& context = call.context;
  const Tensor ids = contiguous(context, call.inputs[0]), h = contiguous(context, call.inputs[1]);
  const Tensor& weight = call.inputs[2];
  const Tensor dlogits = contiguous(context, call.output_gradients[0]);
  const Sequences& bags = call.sequences;
  const SparseOperators& operators = *sparse_table(context, bag_logits_name).operators;
  if (call.wanted[1])
    call.input_gradients[1] = {
        run(context, *operators.embedding_bag, EmbeddingBagSetting{BagMode::sum},
            {weight, ids, dlogits}, bags)[0],
        {}};
  if (!call.wanted[2] && !call.wanted[3]) return;
  const BagOccurrences all = bag_occurrences(context, ids, dlogits, bags, weight.size(0));
  const auto rows_of = [&](const Tensor& dy) {
    return Gradient{run(context, *operators.embedding_bag_backward, {},
                        {dy, all.bags, all.starts, all.weights}, bags)[0],
                    all.ids};
  };
  if (call.wanted[2]) call.input_gradients[2] = rows_of(h);
  if (call.wanted[3])
    call.input_gradients[3] = rows_of(Tensor::full(context, Shape{h.size(0), 1}, 1.0f));
}

}  // namespace detail

namespace ops {

inline constexpr Operator bag_logits{.name = detail::bag_logits_name,
                                     .min_inputs = 4,
                                     .max_inputs = 4,
                                     .keeps_inputs = 7,
                                     .shape = &detail::bag_logits_shape,
                                     .host = &detail::bag_logits_host,
                                     .gradient = &detail::bag_logits_gradient,
                                     .wide_gradients = true,
                                     .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
