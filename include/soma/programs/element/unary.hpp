#pragma once
// Element-wise functions of one tensor: one activation of the Scalar engine if it has the function,
// else a few instructions of the Scalar and Vector engines.

#include <soma/ops/element/unary.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/pieces.hpp>

#include <cstddef>
#include <limits>

namespace SOMA_NAMESPACE::programs {

inline constexpr float largest_float = (std::numeric_limits<float>::max)();
inline constexpr float half_pi = 1.57079637f, half_pi_rest = -4.37113883e-8f;  // their sum is pi/2

// The Scalar engine's function for a unary operator; Function::copy if the engine has none (or for
// copy itself).
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

// The engine's square root is valid from 2^-116 on: for smaller numbers, the root of zero is exact
// and all other roots are 2^-58.
inline void square_root_tile(Core& core, const Tile& y, const Tile& x, Scratch& scratch) {
  const Tile root = scratch.like(3, x), flags = scratch.like(4, x);
  core.vector.tensor_scalar(root, x, Alu::maximum, 0x1p-116f, Alu::none, {}, {.reverse0 = true});
  core.scalar.activation(root, root, Function::sqrt);
  core.vector.scalar_tensor_tensor(root, x, Alu::greater, 0, Alu::multiply, root);
  spoil_negative(core, y, root, x, flags);
}

// The engine's logarithm is valid from 2^-64 to 2^64: smaller numbers are multiplied by 2^86 first.
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

// angle = x minus whole turns, from -pi to pi. The turn is subtracted in three parts, so that the
// products with up to 2^13 turns are exact; beyond |x| = 50000 the result loses digits.
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

// exp(min(x, 0)).
inline void exponential_below_zero(Core& core, const Tile& y, const Tile& x) {
  core.vector.tensor_scalar(y, x, Alu::minimum, 0, Alu::none, {}, {.reverse0 = true});
  core.scalar.activation(y, y, Function::exp);
}

// (x + 3) / 6 within 0 to 1; `value` is fp32.
inline void hard_sigmoid_tile(Core& core, const Tile& y, const Tile& x, const Tile& value) {
  core.vector.tensor_scalar(value, x, Alu::add, 3, Alu::maximum, 0, {.reverse1 = true})
      .tensor_scalar(y, value, Alu::minimum, 6, Alu::multiply, 1.0f / 6, {.reverse0 = true});
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
    case Unary::elu: {  // max(x, 0) + (exp(min(x, 0)) - 1)
      const Tile value = scratch.like(0, x);
      exponential_below_zero(core, value, x);
      core.vector.tensor_scalar(value, value, Alu::subtract, 1)
          .scalar_tensor_tensor(y, x, Alu::maximum, 0, Alu::add, value);
      return;
    }
    case Unary::hard_sigmoid:
      return hard_sigmoid_tile(core, y, x, scratch.like(0, x));
    case Unary::hard_swish: {
      const Tile gate = scratch.like(0, x), value = scratch.like(1, x);
      hard_sigmoid_tile(core, gate, x, value);
      core.vector.tensor_scalar(value, x, Alu::maximum, -3, Alu::none, {}, {.reverse0 = true})
          .tensor_tensor(y, value, gate, Alu::multiply);
      return;
    }
    case Unary::hard_tanh:
      return clamp(core, y, x, -1, 1);
    default:
      core.scalar.activation(y, x, function_of(function));
  }
}

// ---- programs

inline void run_unary(Core& core, const OperatorCall& call, Unary function) {
  const Tensor x = row_major(core, call.inputs[0]);
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

template <Unary function>
void unary(Core& core, const OperatorCall& call) {
  run_unary(core, call, function);
}

}  // namespace SOMA_NAMESPACE::programs
