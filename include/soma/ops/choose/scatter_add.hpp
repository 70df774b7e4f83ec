#pragma once
// scatter_add: adds elements to those of x that an index names, along one dimension:
// y = x, then y[.., index[.., i, ..], ..] += values[.., i, ..], in ascending order of i, in fp32.
// The index has the rank of x; in each dimension at most the size of the values, and in all but the
// given one at most the size of x.

#include <soma/ops/choose/gather.hpp>
#include <soma/ops/plain_call.hpp>

#include <cstddef>
#include <string>

namespace SOMA_NAMESPACE {

namespace detail {

inline void scatter_add_shape(const ShapeCall& call) {
  const std::size_t dimension = call.attributes.as<DimensionSetting>().dimension;
  const Tensor &x = call.inputs[0], &values = call.inputs[1], &index = call.inputs[2];
  check_floating("scatter_add", "x", x);
  check_index_type("scatter_add", "index", index);
  check_dimension("scatter_add", x, dimension);
  check_rank("scatter_add", "index", index, x.rank());
  if (values.dtype() != x.dtype() || values.rank() != x.rank())
    fail(error_id::tensor_shape, "scatter_add", "values", values.describe(),
         "the type and the rank of x, " + x.describe());
  for (std::size_t d = 0; d < x.rank(); ++d)
    if (index.size(d) > values.size(d) || (d != dimension && index.size(d) > x.size(d)))
      fail(error_id::tensor_shape, "scatter_add", "index", index.describe(),
           "at most the sizes of the values, " + values.describe() + ", and of x, " + x.describe() +
               ", but for dimension " + std::to_string(dimension));
  call.outputs[0] = {x.shape(), x.dtype()};
}

// The first elements of `values` in each dimension, as many as the index has. A view.
inline Tensor scatter_reach(Tensor values, const Shape& index) {
  for (std::size_t d = 0; d < values.rank(); ++d) values = values.slice(d, 0, index[d]);
  return values;
}

inline void scatter_add_plain(const OperatorCall& call) {
  const std::size_t dimension = call.attributes.as<DimensionSetting>().dimension;
  const Tensor index = contiguous(call.context, call.inputs[2]);
  const Tensor& y = call.outputs[0];
  check_index_within("scatter_add", index, y.size(dimension));
  copy(call.inputs[0], y);
  if (index.elements() == 0) return;
  const Tensor values = contiguous(call.context, scatter_reach(call.inputs[1], index.shape()));
  const Tensor reach = gather_reach(y, index.shape(), dimension);
  const Tensor sums = contiguous(call.context, reach);
  float* to = sums.mutable_data<float>();
  const float* from = values.data<float>();
  for_gathered(call.context, Along(sums.shape(), dimension), Along(index.shape(), dimension), index,
               [&](std::size_t at, std::size_t chosen) { to[chosen] += from[at]; });
  if (!reach.contiguous()) copy(sums, reach);
}
inline void scatter_add_host(const OperatorCall& call) {
  with_plain_tensors(call, 0, scatter_add_plain);
}

inline void scatter_add_gradient(const GradientCall& call) {
  const std::size_t dimension = call.attributes.as<DimensionSetting>().dimension;
  const Tensor& dy = call.output_gradients[0];
  if (call.wanted[0]) call.input_gradients[0].values = dy;
  if (!call.wanted[1]) return;
  const Tensor index = contiguous(call.context, call.inputs[2]);
  const Tensor dvalues = Tensor::zeros(call.context, call.inputs[1].shape(), dy.dtype());
  if (index.elements() != 0) {
    const Tensor from = contiguous(call.context, gather_reach(dy, index.shape(), dimension));
    const Tensor chosen = Tensor::empty(call.context, index.shape(), dy.dtype());
    with_element_width(dy.dtype(), [&](auto width) {
      using T = decltype(width);
      const T* all = codes<T>(from);
      T* to = mutable_codes<T>(chosen);
      for_gathered(call.context, Along(from.shape(), dimension), Along(index.shape(), dimension),
                   index, [&](std::size_t at, std::size_t picked) { to[at] = all[picked]; });
    });
    copy(chosen, scatter_reach(dvalues, index.shape()));
  }
  call.input_gradients[1].values = dvalues;
}

// Sums over the rows of a batch are rows of no batch.
inline void scatter_add_batch(const BatchCall& call) {
  const std::size_t dimension = call.attributes.as<DimensionSetting>().dimension;
  for (std::size_t i = 0; i < call.inputs.size() && !call.results[0].defined(); ++i) {
    const Sequences& batch = call.batches[i];
    if (batch.defined() && batch.place().dimension != dimension)
      call.results[0] = batch_of_same_dimension(batch, call.inputs[i], call.outputs[0]);
  }
}

}  // namespace detail

namespace ops {

inline constexpr Operator scatter_add{.name = "scatter_add",
                                      .min_inputs = 3,
                                      .max_inputs = 3,
                                      .keeps_inputs = 0b110,
                                      .batch = &detail::scatter_add_batch,
                                      .shape = &detail::scatter_add_shape,
                                      .host = &detail::scatter_add_host,
                                      .gradient = &detail::scatter_add_gradient,
                                      .wide_gradients = true,
                                      .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
