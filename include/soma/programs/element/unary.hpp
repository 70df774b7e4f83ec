#pragma once
// Element-wise functions of one tensor: one activation of the Scalar engine where it has the
// function, a few instructions of it and the Vector engine where not.

#include <soma/ops/element/unary.hpp>
#include <soma/programs/pieces.hpp>

#include <cstddef>
#include <limits>

namespace soma::programs {

inline constexpr float largest_float = (std::numeric_limits<float>::max)();
inline constexpr float half_pi = 1.57079637f, half_pi_rest = -4.37113883e-8f;  // their sum is pi/2

// What the Scalar engine has for it; Function::copy: nothing (or copy itself).
constexpr Function function_of(Unary unary) {
  switch (unary) {
    case Unary::absolute:
      return Function::absolute;
    case Unary::square:
      return Function::square;
    case Unary::exponential:
      return Function::exp;
    case Unary::relu:
      return Function::relu;
    case Unary::gelu:
      return Function::gelu;
    case Unary::gelu_tanh:
      return Function::gelu_apprx_tanh;
    case Unary::tanh:
      return Function::tanh;
    case Unary::sigmoid:
      return Function::sigmoid;
    case Unary::silu:
      return Function::silu;
    case Unary::softplus:
      return Function::softplus;
    case Unary::gelu_sigmoid:
      return Function::gelu_apprx_sigmoid;
    case Unary::mish:
      return Function::mish;
    default:
      return Function::copy;
  }
}

// to = minimum <= x <= maximum; NaN stays.
inline void clamp(Core& core, const Tile& to, const Tile& x, float minimum, float maximum) {
  core.vector.tensor_scalar(to, x, Alu::maximum, minimum, Alu::minimum, maximum,
                            {.reverse0 = true, .reverse1 = true});
}

// y = NaN where x < 0 (infinity - infinity), else value, which is finite there.
inline void spoil_negative(Core& core, const Tile& y, const Tile& value, const Tile& x,
                           const Tile& flags) {
  core.vector.tensor_scalar(flags, x, Alu::less, 0, Alu::multiply, largest_float)
      .scalar_tensor_tensor(value, flags, Alu::multiply, largest_float, Alu::add, value)
      .scalar_tensor_tensor(y, flags, Alu::multiply, -largest_float, Alu::add, value);
}

// The engine's root begins at 2^-116: below, zero is exact and the rest is 2^-58.
inline void square_root_tile(Core& core, const Tile& y, const Tile& x, Scratch& scratch) {
  const Tile root = scratch.like(3, x), flags = scratch.like(4, x);
  core.vector.tensor_scalar(root, x, Alu::maximum, 0x1p-116f, Alu::none, {}, {.reverse0 = true});
  core.scalar.activation(root, root, Function::sqrt);
  core.vector.scalar_tensor_tensor(root, x, Alu::greater, 0, Alu::multiply, root);
  spoil_negative(core, y, root, x, flags);
}

// The engine's logarithm begins at 2^-64: smaller numbers are multiplied by 2^86 first. Good up to
// 2^64.
inline void logarithm_tile(Core& core, const Tile& y, const Tile& x, Scratch& scratch) {
  const Tile factor = scratch.like(0, x), value = scratch.like(1, x), flags = scratch.like(2, x);
  constexpr float shift = 0x1p86f, shift_logarithm = 59.6106575f;
  core.vector.tensor_scalar(factor, x, Alu::less, 0x1p-64f, Alu::multiply, shift)
      .scalar_tensor_tensor(value, factor, Alu::maximum, 1, Alu::multiply, x)
      .tensor_scalar(value, value, Alu::maximum, 0x1p-64f, Alu::none, {}, {.reverse0 = true});
  core.scalar.activation(value, value, Function::log);
  core.vector
      .scalar_tensor_tensor(value, factor, Alu::multiply, -shift_logarithm / shift, Alu::add, value)
      .tensor_scalar(flags, x, Alu::equal, 0, Alu::multiply, largest_float)
      .scalar_tensor_tensor(value, flags, Alu::multiply, -largest_float, Alu::add, value);
  spoil_negative(core, y, value, x, flags);
}

// angle = x less whole turns, from -pi to pi. The turn is subtracted in three parts, so that the
// products with up to 2^13 turns are exact; beyond |x| = 50000 digits are lost.
inline void reduce_angle(Core& core, const Tile& angle, const Tile& x, Scratch& scratch) {
  constexpr float pi = 3.14159274f;
  constexpr float parts[] = {6.28125f, 0x7EDp-20f, 3.01991598e-7f};
  const Tile turns = scratch.like(1, x), whole = turns.as(DType::int32);
  core.vector.tensor_scalar(whole, x, Alu::multiply, 0.159154943f)
      .copy(turns, whole)
      .scalar_tensor_tensor(angle, turns, Alu::multiply, -parts[0], Alu::add, x)
      .scalar_tensor_tensor(angle, turns, Alu::multiply, -parts[1], Alu::add, angle)
      .scalar_tensor_tensor(angle, turns, Alu::multiply, -parts[2], Alu::add, angle);
  clamp(core, angle, angle, -pi, pi);
}
inline void sine_tile(Core& core, const Tile& y, const Tile& x, Scratch& scratch) {
  const Tile angle = scratch.like(0, x);
  reduce_angle(core, angle, x, scratch);
  core.scalar.activation(angle, angle, Function::sin);
  // + 0 x: NaN for infinity.
  core.vector.scalar_tensor_tensor(y, x, Alu::multiply, 0, Alu::add, angle);
}
// The sine of pi/2 - |angle|.
inline void cosine_tile(Core& core, const Tile& y, const Tile& x, Scratch& scratch) {
  const Tile angle = scratch.like(0, x);
  reduce_angle(core, angle, x, scratch);
  core.vector
      .tensor_scalar(angle, angle, Alu::absolute, 0, Alu::subtract, half_pi, {.reverse1 = true})
      .tensor_scalar(angle, angle, Alu::add, half_pi_rest);
  core.scalar.activation(angle, angle, Function::sin);
  core.vector.scalar_tensor_tensor(y, x, Alu::multiply, 0, Alu::add, angle);
}

// 1/2 + 1/2 erf((x - middle) / (deviation sqrt 2)).
constexpr float laplace_middle = 0.707107f, laplace_scale = 2.50662642f;  // 1 / (0.282095 sqrt 2)
inline void laplace_tile(Core& core, const Tile& y, const Tile& x, Scratch& scratch) {
  const Tile value = scratch.like(0, x);
  core.vector.tensor_scalar(value, x, Alu::subtract, laplace_middle);
  core.scalar.activation(value, value, Function::erf, {.scale = laplace_scale});
  core.vector.tensor_scalar(y, value, Alu::multiply, 0.5f, Alu::add, 0.5f);
}

// y = f(x), for a tile.
inline void unary_tile(Core& core, Unary function, const Tile& y, const Tile& x, Scratch& scratch) {
  switch (function) {
    case Unary::negate:
      core.scalar.activation(y, x, Function::copy, {.scale = -1});
      return;
    case Unary::reciprocal:
      core.vector.reciprocal(y, x);
      return;
    case Unary::square_root:
      return square_root_tile(core, y, x, scratch);
    case Unary::logarithm:
      return logarithm_tile(core, y, x, scratch);
    case Unary::sine:
      return sine_tile(core, y, x, scratch);
    case Unary::cosine:
      return cosine_tile(core, y, x, scratch);
    case Unary::gelu_clipped: {
      const Tile value = scratch.like(0, x);
      core.scalar.activation(value, x, Function::gelu);
      core.vector.tensor_scalar(y, value, Alu::minimum, gelu_clip, Alu::none, {},
                                {.reverse0 = true});
      return;
    }
    case Unary::leaky_relu:
      core.vector.scalar_tensor_tensor(y, x, Alu::multiply, leaky_slope, Alu::maximum, x);
      return;
    case Unary::relu6:
      return clamp(core, y, x, 0, 6);
    case Unary::relu_squared: {
      const Tile value = scratch.like(0, x);
      core.scalar.activation(value, x, Function::relu);
      core.vector.tensor_tensor(y, value, value, Alu::multiply);
      return;
    }
    case Unary::laplace:
      return laplace_tile(core, y, x, scratch);
    default:
      core.scalar.activation(y, x, function_of(function));
  }
}

// ---- backward: dx = dy f'(x), for a tile

// x sigmoid(v) with v = x (a + b x^2): s + s (1 - s) x (a + 3 b x^2). Beyond 12 the derivative is 0
// or 1, and so is that at 12.
inline void gelu_tanh_derivative(Core& core, const Tile& slope, const Tile& x, Scratch& scratch) {
  constexpr float a = 1.59576912f, b = 7.13548163e-2f;
  const Tile near = scratch.like(1, x), square = scratch.like(2, x), other = scratch.like(3, x);
  clamp(core, near, x, -12, 12);
  core.scalar.activation(square, near, Function::square);
  core.vector.tensor_scalar(slope, square, Alu::multiply, b, Alu::add, a)
      .tensor_tensor(slope, slope, near, Alu::multiply)
      .tensor_scalar(square, square, Alu::multiply, 3 * b, Alu::add, a)
      .tensor_tensor(near, near, square, Alu::multiply);
  core.scalar.activation(other, slope, Function::sigmoid, {.scale = -1});
  core.scalar.activation(slope, slope, Function::sigmoid);
  core.vector.tensor_tensor(near, near, other, Alu::multiply)
      .scalar_tensor_tensor(slope, near, Alu::add, 1, Alu::multiply, slope);
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
  const Tile near = scratch.like(1, x), u = scratch.like(2, x), other = scratch.like(3, x);
  clamp(core, near, x, -100, 100);
  core.scalar.activation(u, near, Function::softplus);
  core.scalar.activation(slope, near, Function::sigmoid);
  core.scalar.activation(other, u, Function::sigmoid, {.scale = 2});
  core.vector.tensor_tensor(near, near, slope, Alu::multiply)
      .scalar_tensor_tensor(near, near, Alu::multiply, 4, Alu::multiply, other);
  core.scalar.activation(other, u, Function::sigmoid, {.scale = -2});
  core.scalar.activation(slope, u, Function::tanh);
  core.vector.tensor_tensor(near, near, other, Alu::multiply)
      .tensor_tensor(slope, slope, near, Alu::add);
}

// dx = dy where x lies above 0, and below `most` where it is not none, or 0 whatever dy is.
inline void cut_gradient(Core& core, const Tile& dx, const Tile& x, const Tile& dy, bool from_zero,
                         Alu upper, float most, Scratch& scratch) {
  const Tile flags = scratch.like(2, x), mask = flags.as(DType::int32), value = scratch.like(1, x);
  const auto select = [&](Alu outside, float bound) {  // a product with 0 may be NaN
    core.vector.tensor_scalar(mask, x, outside, bound, Alu::subtract, 1);  // -1: all ones
    core.vector.tensor_tensor(value.as(DType::int32), value.as(DType::int32), mask,
                              Alu::bitwise_and);
  };
  core.scalar.copy(value, dy);
  if (from_zero) select(Alu::less_equal, 0);
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
      return cut_gradient(core, dx, x, dy, true, Alu::none, 0, scratch);
    case Unary::relu6:
      return cut_gradient(core, dx, x, dy, true, Alu::greater_equal, 6, scratch);
    case Unary::relu_squared:
      scaled_to(slope, x, Alu::multiply, 2);
      return cut_gradient(core, dx, x, slope, true, Alu::none, 0, scratch);
    case Unary::gelu_clipped:
      core.scalar.activation(slope, x, Function::gelu_dx);
      core.vector.tensor_tensor(slope, slope, dy, Alu::multiply);
      return cut_gradient(core, dx, x, slope, false, Alu::greater, gelu_clip, scratch);
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
  }
}

// ---- programs

inline void run_unary(Core& core, const OperatorCall& call, Unary function) {
  const Tensor x = contiguous(call.context, call.inputs[0]);
  const HbmView from = flat_view(x), to = flat_target(call.outputs[0]);
  const ElementTiles tiles(x.elements());
  Pair in = tiles.pair(core, x.dtype()), out = tiles.pair(core, to.dtype());
  Scratch scratch(core, tiles.partitions(), tiles.width());
  tiles.for_each([&](std::size_t first, std::size_t rows, std::size_t columns) {
    const Tile source = in.next(rows, columns), result = out.next(rows, columns);
    core.dma.load(source, element_block(from, first, rows, columns));
    unary_tile(core, function, result, source, scratch);
    core.dma.queue(store_queue).store(element_block(to, first, rows, columns), result);
  });
}

inline void run_unary_backward(Core& core, const OperatorCall& call, Unary function) {
  const Tensor x = contiguous(call.context, call.inputs[0]);
  const Tensor dy = contiguous(call.context, call.inputs[1]);
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
void unary(Core& core, const OperatorCall& call) {
  run_unary(core, call, function);
}
template <Unary function>
void unary_backward(Core& core, const OperatorCall& call) {
  run_unary_backward(core, call, function);
}

}  // namespace soma::programs
