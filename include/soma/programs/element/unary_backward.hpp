#pragma once
// Gradients of element-wise functions: dx = dy f'(x), tile by tile.

#include <soma/ops/element/unary.hpp>
#include <soma/programs/element/unary.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/pieces.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE::programs {

// x sigmoid(v) with v = x (a + b x^2): s + s (1 - s) x (a + 3 b x^2). Beyond 12 the derivative is 0
// or 1, as at 12, so x is clamped.
inline void gelu_tanh_derivative(Core& core, const Tile& slope, const Tile& x, Scratch& scratch) {
  constexpr float a = 1.59576912f, b = 7.13548163e-2f;
  const Tile close_by = scratch.like(1, x), square = scratch.like(2, x), other = scratch.like(3, x);
  clamp(core, close_by, x, -12, 12);
  core.scalar.activation(square, close_by, Function::square);
  core.vector.tensor_scalar(slope, square, Alu::multiply, b, Alu::add, a)
      .tensor_tensor(slope, slope, close_by, Alu::multiply)
      .tensor_scalar(square, square, Alu::multiply, 3 * b, Alu::add, a)
      .tensor_tensor(close_by, close_by, square, Alu::multiply);
  core.scalar.activation(other, slope, Function::sigmoid, {.scale = -1});
  core.scalar.activation(slope, slope, Function::sigmoid);
  core.vector.tensor_tensor(close_by, close_by, other, Alu::multiply)
      .scalar_tensor_tensor(slope, close_by, Alu::add, 1, Alu::multiply, slope);
}

// dx = factor sigmoid(scale x) sigmoid(-scale x) dy.
inline void logistic_backward(Core& core, const Tile& dx, const Tile& x, const Tile& dy,
                              float scale, float factor, Scratch& scratch) {
  const Tile upper = scratch.like(0, x), lower = scratch.like(1, x);
  core.scalar.activation(upper, x, Function::sigmoid, {.scale = scale})
      .activation(lower, x, Function::sigmoid, {.scale = -scale});
  core.vector.scalar_tensor_tensor(upper, upper, Alu::multiply, factor, Alu::multiply, lower)
      .tensor_tensor(dx, upper, dy, Alu::multiply);
}

// tanh(softplus x) + x sigmoid(x) / cosh(softplus x)^2, up to where the second term is 0. The slope
// of tanh is 4 sigmoid(2 u) sigmoid(-2 u).
inline void mish_derivative(Core& core, const Tile& slope, const Tile& x, Scratch& scratch) {
  const Tile close_by = scratch.like(1, x), u = scratch.like(2, x), other = scratch.like(3, x);
  clamp(core, close_by, x, -100, 100);
  core.scalar.activation(u, close_by, Function::softplus);
  core.scalar.activation(slope, close_by, Function::sigmoid);
  core.scalar.activation(other, u, Function::sigmoid, {.scale = 2});
  core.vector.tensor_tensor(close_by, close_by, slope, Alu::multiply)
      .scalar_tensor_tensor(close_by, close_by, Alu::multiply, 4, Alu::multiply, other);
  core.scalar.activation(other, u, Function::sigmoid, {.scale = -2});
  core.scalar.activation(slope, u, Function::tanh);
  core.vector.tensor_tensor(close_by, close_by, other, Alu::multiply)
      .tensor_tensor(slope, slope, close_by, Alu::add);
}

// dx = dy, but 0, whatever dy is, if x is at or below `least` (not if `lower` is none), or if
// `upper` compares x and `most` as true.
inline void cut_gradient(Core& core, const Tile& dx, const Tile& x, const Tile& dy, Alu lower,
                         float least, Alu upper, float most, Scratch& scratch) {
  const Tile flags = scratch.like(2, x), mask = flags.as(DType::int32), value = scratch.like(1, x);
  const auto select = [&](Alu outside, float bound) {  // a product with 0 may be NaN
    core.vector.tensor_scalar(mask, x, outside, bound, Alu::subtract, 1);  // -1: all ones
    core.vector.tensor_tensor(value.as(DType::int32), value.as(DType::int32), mask,
                              Alu::bitwise_and);
  };
  core.scalar.copy(value, dy);
  if (lower != Alu::none) select(lower, least);
  if (upper != Alu::none) select(upper, most);
  core.scalar.copy(dx, value);
}

inline void unary_backward_tile(Core& core, Unary function, const Tile& dx, const Tile& x,
                                const Tile& dy, Scratch& scratch) {
  const Tile slope = scratch.like(0, x);
  const auto activated = [&](Function derivative) {
    core.scalar.activation(slope, x, derivative);
    core.vector.tensor_tensor(dx, slope, dy, Alu::multiply);
  };
  // dx = (slope op constant) dy
  const auto scaled_to = [&](const Tile& to, const Tile& value, Alu op, float constant) {
    core.vector.scalar_tensor_tensor(to, value, op, constant, Alu::multiply, dy);
  };
  const auto scaled = [&](const Tile& value, Alu op, float constant) {
    scaled_to(dx, value, op, constant);
  };
  switch (function) {
    case Unary::copy:
      core.scalar.copy(dx, dy);
      return;
    case Unary::negate:
      core.scalar.activation(dx, dy, Function::copy, {.scale = -1});
      return;
    case Unary::absolute:
      return activated(Function::sign);
    case Unary::square:
      return scaled(x, Alu::multiply, 2);
    case Unary::square_root:
      square_root_tile(core, slope, x, scratch);
      core.vector.reciprocal(slope, slope);
      return scaled(slope, Alu::multiply, 0.5f);
    case Unary::reciprocal: {  // (dy / x) / -x: the square may be above or below all numbers
      const Tile quotient = scratch.like(1, x);
      core.vector.reciprocal(slope, x)
          .tensor_tensor(quotient, slope, dy, Alu::multiply)
          .scalar_tensor_tensor(dx, slope, Alu::multiply, -1, Alu::multiply, quotient);
      return;
    }
    case Unary::exponential:
      return activated(Function::exp);
    case Unary::logarithm:
      core.vector.reciprocal(slope, x).tensor_tensor(dx, slope, dy, Alu::multiply);
      return;
    case Unary::sine:
      cosine_tile(core, slope, x, scratch);
      core.vector.tensor_tensor(dx, slope, dy, Alu::multiply);
      return;
    case Unary::cosine:
      sine_tile(core, slope, x, scratch);
      return scaled(slope, Alu::multiply, -1);
    case Unary::relu:
      return cut_gradient(core, dx, x, dy, Alu::less_equal, 0, Alu::none, 0, scratch);
    case Unary::relu6:
      return cut_gradient(core, dx, x, dy, Alu::less_equal, 0, Alu::greater_equal, 6, scratch);
    case Unary::relu_squared:
      scaled_to(slope, x, Alu::multiply, 2);
      return cut_gradient(core, dx, x, slope, Alu::less_equal, 0, Alu::none, 0, scratch);
    case Unary::gelu_clipped:
      core.scalar.activation(slope, x, Function::gelu_dx);
      core.vector.tensor_tensor(slope, slope, dy, Alu::multiply);
      return cut_gradient(core, dx, x, slope, Alu::none, 0, Alu::greater, gelu_clip, scratch);
    case Unary::leaky_relu:  // 1 above zero
      core.vector.tensor_scalar(slope, x, Alu::greater, 0, Alu::multiply, 1 - leaky_slope)
          .scalar_tensor_tensor(dx, slope, Alu::add, leaky_slope, Alu::multiply, dy);
      return;
    case Unary::gelu:
      return activated(Function::gelu_dx);
    case Unary::gelu_tanh:
      gelu_tanh_derivative(core, slope, x, scratch);
      core.vector.tensor_tensor(dx, slope, dy, Alu::multiply);
      return;
    case Unary::tanh:
      return logistic_backward(core, dx, x, dy, 2, 4, scratch);
    case Unary::sigmoid:
      return logistic_backward(core, dx, x, dy, 1, 1, scratch);
    case Unary::silu:
      return activated(Function::silu_dx);
    case Unary::softplus:
      return activated(Function::sigmoid);
    case Unary::gelu_sigmoid:
      return activated(Function::gelu_apprx_sigmoid_dx);
    case Unary::mish:
      mish_derivative(core, slope, x, scratch);
      core.vector.tensor_tensor(dx, slope, dy, Alu::multiply);
      return;
    case Unary::laplace:  // scale / 2 times the slope of erf
      core.vector.tensor_scalar(slope, x, Alu::subtract, laplace_middle);
      core.scalar.activation(slope, slope, Function::erf_dx, {.scale = laplace_scale});
      return scaled(slope, Alu::multiply, laplace_scale / 2);
    case Unary::elu:
      exponential_below_zero(core, slope, x);
      core.vector.tensor_tensor(dx, slope, dy, Alu::multiply);
      return;
    case Unary::hard_sigmoid:
      core.vector.tensor_scalar(slope, dy, Alu::multiply, 1.0f / 6);
      return cut_gradient(core, dx, x, slope, Alu::less_equal, -3, Alu::greater_equal, 3, scratch);
    case Unary::hard_swish: {  // x / 3 + 1/2, and from 3 on 1: there half is taken off again
      const Tile half = scratch.like(3, x);
      clamp(core, slope, x, -3, 3);
      core.vector.tensor_scalar(half, x, Alu::greater_equal, 3, Alu::multiply, -0.5f)
          .tensor_scalar(slope, slope, Alu::multiply, 1.0f / 3, Alu::add, 0.5f)
          .tensor_tensor(slope, slope, half, Alu::add)
          .tensor_tensor(slope, slope, dy, Alu::multiply);
      return cut_gradient(core, dx, x, slope, Alu::less_equal, -3, Alu::none, 0, scratch);
    }
    case Unary::hard_tanh:
      return cut_gradient(core, dx, x, dy, Alu::less_equal, -1, Alu::greater_equal, 1, scratch);
  }
}

inline void run_unary_backward(Core& core, const OperatorCall& call, Unary function) {
  const Tensor x = row_major(core, call.inputs[0]);
  const Tensor dy = row_major(core, call.inputs[1]);
  const HbmView from = flat_view(x), gradients = flat_view(dy), to = flat_target(call.outputs[0]);
  const ElementTiles tiles(x.elements());
  Pair in = tiles.pair(core, x.dtype()), gradient_in = tiles.pair(core, dy.dtype());
  Pair out = tiles.pair(core, to.dtype());
  Scratch scratch(core, tiles.partitions(), tiles.width());
  tiles.for_each([&](std::size_t first, std::size_t rows, std::size_t columns) {
    const Tile source = in.next(rows, columns), gradient = gradient_in.next(rows, columns);
    const Tile result = out.next(rows, columns);
    core.dma.load(source, element_block(from, first, rows, columns))
        .load(gradient, element_block(gradients, first, rows, columns));
    unary_backward_tile(core, function, result, source, gradient, scratch);
    core.dma.queue(store_queue).store(element_block(to, first, rows, columns), result);
  });
}

template <Unary function>
void unary_backward(Core& core, const OperatorCall& call) {
  run_unary_backward(core, call, function);
}

}  // namespace SOMA_NAMESPACE::programs
