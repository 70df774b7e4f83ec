#pragma once
// where: y = a where the condition is not 0, else b. All three broadcast as in NumPy.

#include <soma/ops/choose/elements.hpp>
#include <soma/ops/rows/reduce.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/samples.hpp>

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

inline OperatorSamples where_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& condition, const Shape& a, const Shape& b) {
    const Shape shape = where_result(condition, a, b);
    result.samples.push_back(
        {.name = to_string(condition) + " " + to_string(a) + " " + to_string(b),
         .inputs = {{.shape = condition, .dtype = DType::uint8, .low = 0, .high = 1},
                    {.shape = a},
                    {.shape = b}},
         .attributes = {},
         .lengths = {},
         .error = 0,
         .gradient_error = static_cast<double>(shape.elements() + 1) * 0x1p-24});
  };
  add({}, {}, {});
  add({7, 33}, {7, 33}, {7, 33});
  add({5, 1}, {3}, {});
  add({3}, {2, 1, 3}, {4, 1});
  add({0, 3}, {3}, {1});
  result.reference = [](const Sample&, const std::vector<ReferenceTensor>& inputs) {
    const Shape shape = where_result(inputs[0].shape, inputs[1].shape, inputs[2].shape);
    ReferenceTensor y{shape, {}};
    const auto at = [&](const ReferenceTensor& x, std::size_t index) {
      std::size_t offset = 0, step = 1;
      for (std::size_t d = shape.rank(), e = x.shape.rank(); d-- > 0 && e > 0; index /= shape[d]) {
        --e;
        if (x.shape[e] != 1) offset += index % shape[d] * step;
        step *= x.shape[e];
      }
      return x.values[offset];
    };
    for (std::size_t i = 0; i < shape.elements(); ++i)
      y.values.push_back(at(inputs[0], i) != 0 ? at(inputs[1], i) : at(inputs[2], i));
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

}  // namespace detail

namespace ops {

inline constexpr Operator where{.name = "where",
                                .min_inputs = 3,
                                .max_inputs = 3,
                                .keeps_inputs = 1,
                                .shape = &detail::where_shape,
                                .host = &detail::where_host,
                                .gradient = &detail::where_gradient,
                                .samples = SOMA_BUILT_IN_SAMPLES(detail::where_samples)};

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
        sum_to(call.context, chosen, call.inputs[i].shape(), call.sequences);
  }
}

}  // namespace SOMA_NAMESPACE
