#pragma once
// gather: picks elements of x along one dimension by index:
// y[.., i, ..] = x[.., index[.., i, ..], ..]. The index has the rank of x and, in the other
// dimensions, at most its sizes.

#include <soma/ops/batch.hpp>
#include <soma/ops/choose/elements.hpp>
#include <soma/ops/choose/settings.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/rows/embedding.hpp>
#include <soma/ops/run.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

inline void gather_shape(const ShapeCall& call) {
  const std::size_t dimension = call.attributes.as<DimensionSetting>().dimension;
  const Tensor &x = call.inputs[0], &index = call.inputs[1];
  check_floating("gather", "x", x);
  check_index_type("gather", "index", index);
  check_dimension("gather", x, dimension);
  check_rank("gather", "index", index, x.rank());
  for (std::size_t d = 0; d < x.rank(); ++d)
    if (d != dimension && index.size(d) > x.size(d))
      fail(error_id::tensor_shape, "gather", "index", index.describe(),
           "at most the sizes of x, " + x.describe() + ", but for dimension " +
               std::to_string(dimension));
  call.outputs[0] = {index.shape(), x.dtype()};
}

// The part of x that an index can reach: the sizes of the index in all other dimensions. A view.
inline Tensor gather_reach(const Tensor& x, const Shape& index, std::size_t dimension) {
  Tensor reach = x;
  for (std::size_t d = 0; d < x.rank(); ++d)
    if (d != dimension) reach = reach.slice(d, 0, index[d]);
  return reach;
}

// Error operator.value.
inline void check_index_within(std::string_view operation, const Tensor& index, std::size_t size) {
  for (std::size_t i = 0; i < index.elements(); ++i)
    if (const std::int64_t at = index_at(index, i);
        at < 0 || static_cast<std::uint64_t>(at) >= size)
      fail(error_id::operator_value, operation, "index[" + std::to_string(i) + "]",
           std::to_string(at), "0 to " + std::to_string(size) + " - 1");
}

// Calls move(y, x) with the indices of each element of y; the elements of a line are in ascending
// order.
template <class Move>
void for_gathered(Context& context, const Along& x, const Along& y, const Tensor& index,
                  const Move& move) {
  for_ranges(context, y.outer * y.inner, y.size, [&](std::size_t begin, std::size_t end) {
    for (std::size_t line = begin; line < end; ++line) {
      const std::size_t outer = line / y.inner, inner = line % y.inner;
      for (std::size_t i = 0; i < y.size; ++i) {
        const std::size_t to = (outer * y.size + i) * y.inner + inner;
        const auto from = static_cast<std::size_t>(index_at(index, to));
        move(to, (outer * x.size + from) * x.inner + inner);
      }
    }
  });
}

inline void gather_host(const OperatorCall& call) {
  const std::size_t dimension = call.attributes.as<DimensionSetting>().dimension;
  const Tensor index = contiguous(call.context, call.inputs[1]);
  check_index_within("gather", index, call.inputs[0].size(dimension));
  if (index.elements() == 0) return;
  const Tensor x = contiguous(call.context, gather_reach(call.inputs[0], index.shape(), dimension));
  with_element_width(x.dtype(), [&](auto width) {
    using T = decltype(width);
    const T* from = codes<T>(x);
    T* y = mutable_codes<T>(call.outputs[0]);
    for_gathered(call.context, Along(x.shape(), dimension), Along(index.shape(), dimension), index,
                 [&](std::size_t to, std::size_t at) { y[to] = from[at]; });
  });
}

// An element that was picked several times gets the sum of these gradients, in fp32, in their order
// along the dimension.
inline void gather_gradient(const GradientCall& call) {
  const std::size_t dimension = call.attributes.as<DimensionSetting>().dimension;
  const Tensor index = contiguous(call.context, call.inputs[1]);
  const Tensor dx = Tensor::zeros(call.context, call.inputs[0].shape());
  if (index.elements() != 0) {
    const Tensor dy = plain(call.context, call.output_gradients[0]);
    const Tensor reach = gather_reach(dx, index.shape(), dimension);
    const Tensor sums = reach.contiguous() ? reach : Tensor::zeros(call.context, reach.shape());
    float* to = sums.mutable_data<float>();
    const float* from = dy.data<float>();
    for_gathered(call.context, Along(sums.shape(), dimension), Along(index.shape(), dimension),
                 index, [&](std::size_t at, std::size_t chosen) { to[chosen] += from[at]; });
    if (!reach.contiguous()) copy(sums, reach);
  }
  const DType dtype = call.inputs[0].dtype();
  const bool keep = dtype == DType::fp32 || call.sum_type(0);
  call.input_gradients[0].values = keep ? dx : in_type(call.context, dx, dtype);
}

// The elements of a whole row stay in it; elements that are chosen among rows have the batch of
// their index.
inline void gather_batch(const BatchCall& call) {
  const std::size_t dimension = call.attributes.as<DimensionSetting>().dimension;
  const Sequences& batch = call.batches[0];
  if (batch.defined() && batch.place().dimension != dimension)
    call.results[0] = batch_of_same_dimension(batch, call.inputs[0], call.outputs[0]);
  else
    call.results[0] = call.batches[1];
}

}  // namespace detail

namespace ops {

inline constexpr Operator gather{.name = "gather",
                                 .min_inputs = 2,
                                 .max_inputs = 2,
                                 .keeps_inputs = 2,
                                 .batch = &detail::gather_batch,
                                 .shape = &detail::gather_shape,
                                 .host = &detail::gather_host,
                                 .gradient = &detail::gather_gradient,
                                 .wide_gradients = true,
                                 .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
