#pragma once
// where: y = a where the condition is not 0, else b. All three broadcast as in NumPy.

#include <soma/ops/batch.hpp>
#include <soma/ops/choose/elements.hpp>
#include <soma/ops/rows/reduce.hpp>
#include <soma/ops/run.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

inline Shape where_result(const Shape& condition, const Shape& a, const Shape& b) {
  return broadcast(broadcast(condition, a, "where"), b, "where");
}

inline void where_shape(const ShapeCall& call) {
  const Tensor &condition = call.inputs[0], &a = call.inputs[1], &b = call.inputs[2];
  if (size_of(condition.dtype()) != 1 || is_floating(condition.dtype()))
    fail(error_id::tensor_dtype, "where", "condition", condition.describe(), "bool, uint8 or int8");
  check_floating("where", "a", a);
  if (b.dtype() != a.dtype())
    fail(error_id::tensor_dtype, "where", "b", b.describe(), "the type of a, " + a.describe());
  call.outputs[0] = {where_result(condition.shape(), a.shape(), b.shape()), a.dtype()};
}

inline void where_host(const OperatorCall& call) {
  const Shape& shape = call.outputs[0].shape();
  const auto whole = [&](const Tensor& tensor) {
    return contiguous(call.context, tensor.broadcast_to(shape));
  };
  const Tensor condition = whole(call.inputs[0]), a = whole(call.inputs[1]),
               b = whole(call.inputs[2]);
  with_element_width(a.dtype(), [&](auto width) {
    using T = decltype(width);
    const auto* chooses = codes<std::uint8_t>(condition);
    const T *first = codes<T>(a), *second = codes<T>(b);
    T* y = mutable_codes<T>(call.outputs[0]);
    for_ranges(call.context, shape.elements(), 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) y[i] = chooses[i] != 0 ? first[i] : second[i];
    });
  });
}

inline void where_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

inline constexpr Operator where{.name = "where",
                                .min_inputs = 3,
                                .max_inputs = 3,
                                .keeps_inputs = 1,
                                .batch = &detail::batch_by_broadcasting,
                                .shape = &detail::where_shape,
                                .host = &detail::where_host,
                                .gradient = &detail::where_gradient,
                                .wide_gradients = true,
                                .built_in_samples = true};

}  // namespace ops

// An element of dy goes to the input that was chosen there; a broadcast input gets the sum.
inline void detail::where_gradient(const GradientCall& call) {
  const Tensor& dy = call.output_gradients[0];
  const Tensor zero = Tensor::zeros(call.context, Shape{}, dy.dtype());
  for (std::size_t i = 1; i < 3; ++i) {
    if (!call.wanted[i]) continue;
    const Tensor chosen = run(call.context, ops::where, {},
                              {call.inputs[0], i == 1 ? dy : zero, i == 1 ? zero : dy})[0];
    call.input_gradients[i].values =
        sum_to(call.context, chosen, call.inputs[i].shape(), call.output_sequences);
  }
}

}  // namespace SOMA_NAMESPACE
