#pragma once
// Element-wise functions of two tensors with NumPy's broadcasting: y = f(a, b), of a's type.

#include <soma/ops/batch.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/element/unary.hpp>
#include <soma/ops/rows/reduce.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace SOMA_NAMESPACE {
namespace detail {

inline constexpr std::string_view binary_names[] = {"add",    "subtract", "multiply",
                                                    "divide", "maximum",  "minimum"};

template <Binary function>
void binary_shape(const ShapeCall& call) {
  constexpr std::string_view name = binary_names[static_cast<std::size_t>(function)];
  check_floating(name, "a", call.inputs[0]);
  check_floating(name, "b", call.inputs[1]);
  call.outputs[0] = {broadcast(call.inputs[0].shape(), call.inputs[1].shape(), name),
                     call.inputs[0].dtype()};
}

// y = f(a, b_scale * b) for any strides of a and b.
inline void binary_into(Context& context, Binary function, const Tensor& a, const Tensor& b,
                        const Tensor& y, float b_scale = 1) {
  const Shape& shape = y.shape();
  const MatrixTarget to = target(y);
  const auto run_part = [&](const MatrixOperand& x, const MatrixOperand& z, std::size_t offset,
                            std::size_t row, std::size_t column, std::size_t rows,
                            std::size_t columns) {
    context.kernels().element.binary({.function = function,
                                      .rows = rows,
                                      .columns = columns,
                                      .a = part(x, row, column),
                                      .b = part(z, row, column),
                                      .b_scale = b_scale,
                                      .y = part(to, 0, offset + row * to.row_stride + column)});
  };
  if (a.shape() == shape && b.shape() == shape && a.contiguous() && b.contiguous()) {
    const TensorRows all_a = rows_of(context, a), all_b = rows_of(context, b);
    const MatrixOperand x = operand(all_a), z = operand(all_b);
    for_ranges(context, shape.elements(), 4, [&](std::size_t begin, std::size_t end) {
      run_part(x, z, 0, 0, begin, 1, end - begin);
    });
    return;
  }
  // Matrix by matrix: the last two dimensions may have any strides.
  const std::size_t columns = shape.columns();
  const std::size_t rows = shape.rank() < 2 ? 1 : shape[shape.rank() - 2];
  std::size_t matrix = 0;
  for_each_matrix(a.broadcast_to(shape), b.broadcast_to(shape),
                  [&](const MatrixOperand& x, const MatrixOperand& z) {
                    const std::size_t offset = matrix++ * rows * columns;
                    for_ranges(context, rows, columns * 4, [&](std::size_t begin, std::size_t end) {
                      run_part(x, z, offset, begin, 0, end - begin, columns);
                    });
                  });
}

template <Binary function>
void binary_host(const OperatorCall& call) {
  binary_into(call.context, function, call.inputs[0], call.inputs[1], call.outputs[0]);
}

template <Binary function>
void binary_gradient(const GradientCall& call);

template <Binary function>
KeptTensors binary_keeps(std::uint32_t wanted) {
  const std::uint32_t first = wanted & 1, second = wanted >> 1 & 1;
  if constexpr (function == Binary::multiply) return {.inputs = first << 1 | second};
  if constexpr (function == Binary::divide) return {.inputs = (first | second) << 1 | second};
  return {.inputs = function == Binary::add || function == Binary::subtract ? 0u : 3u};
}

}  // namespace detail

namespace ops {

template <Binary function>
constexpr Operator OfBinary<function>::record{
    .name = detail::binary_names[static_cast<std::size_t>(function)],
    .min_inputs = 2,
    .max_inputs = 2,
    .keeps_inputs = function == Binary::add || function == Binary::subtract ? 0u : 3u,
    .keeps_for = &detail::binary_keeps<function>,
    .batch = &detail::batch_by_broadcasting,
    .shape = &detail::binary_shape<function>,
    .host = &detail::binary_host<function>,
    .gradient = &detail::binary_gradient<function>,
    .wide_gradients = true,
    .built_in_samples = true};
template <Binary function>
inline constexpr const Operator& binary = OfBinary<function>::record;

}  // namespace ops

namespace detail {

template <Binary function>
Tensor apply_binary(Context& context, const Tensor& a, const Tensor& b) {
  return run(context, ops::binary<function>, {}, {a, b})[0];
}
template <Unary function>
Tensor apply_unary(Context& context, const Tensor& x) {
  return run(context, ops::unary<function>, {}, {x})[0];
}

// dy where first >= second (or the other way round), else 0. Equal elements do not share: the first
// input takes all. A NaN is chosen, as in forward; of two NaN the first.
inline Tensor where_chosen(Context& context, const Tensor& dy, const Tensor& a, const Tensor& b,
                           bool larger, bool first) {
  const Tensor x = plain_fp32(context, clone(context, a.broadcast_to(dy.shape())));
  const Tensor z = plain_fp32(context, clone(context, b.broadcast_to(dy.shape())));
  Tensor result = clone(context, plain_fp32(context, dy));
  const std::span<const float> p = x.span<float>(), q = z.span<float>();
  const std::span<float> out = result.mutable_span<float>();
  for_ranges(context, out.size(), 4, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      const bool takes_first =
          std::isnan(p[i]) || (!std::isnan(q[i]) && (larger ? p[i] >= q[i] : p[i] <= q[i]));
      if (takes_first != first) out[i] = 0;
    }
  });
  return result;
}

template <Binary function>
void binary_gradient(const GradientCall& call) {
  Context& context = call.context;
  const Tensor &a = call.inputs[0], &b = call.inputs[1];
  const auto give = [&](std::size_t input, const Tensor& gradient) {
    call.input_gradients[input].values =
        sum_to(context, gradient, call.inputs[input].shape(), call.output_sequences);
  };
  // The terms of a sum over the batch are not rounded.
  const auto wide = [&](std::size_t input, const Tensor& tensor) {
    return call.sum_type(input) ? plain_fp32(context, tensor) : tensor;
  };
  const Tensor& dy = call.output_gradients[0];
  if constexpr (function == Binary::add || function == Binary::subtract) {
    if (call.wanted[0]) give(0, dy);
    if (call.wanted[1])
      give(1, function == Binary::add ? dy : apply_unary<Unary::negate>(context, dy));
  } else if constexpr (function == Binary::multiply) {
    if (call.wanted[0]) give(0, apply_binary<Binary::multiply>(context, wide(0, dy), b));
    if (call.wanted[1]) give(1, apply_binary<Binary::multiply>(context, wide(1, dy), a));
  } else if constexpr (function == Binary::divide) {
    if (call.wanted[0]) give(0, apply_binary<Binary::divide>(context, wide(0, dy), b));
    if (call.wanted[1]) {  // -dy ((a / b) / b): dy / b may be above all numbers
      const Tensor slope = apply_binary<Binary::divide>(
          context, apply_binary<Binary::divide>(context, wide(1, a), b), b);
      give(1, apply_unary<Unary::negate>(
                  context, apply_binary<Binary::multiply>(context, wide(1, dy), slope)));
    }
  } else {
    constexpr bool larger = function == Binary::maximum;
    if (call.wanted[0]) give(0, where_chosen(context, dy, a, b, larger, true));
    if (call.wanted[1]) give(1, where_chosen(context, dy, a, b, larger, false));
  }
}

// total += more, both fp32 and of one shape, total contiguous.
inline void add_into(Context& context, const Tensor& total, const Tensor& more) {
  check_shape("add_into", "more", more, total.shape());
  binary_into(context, Binary::add, total, more, total);
}

}  // namespace detail
}  // namespace SOMA_NAMESPACE
