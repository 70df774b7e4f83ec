#pragma once
// Losses of single elements: both engines compute the losses, the Scalar engine's accumulators
// their sum.

#include <soma/ops/loss/element_loss.hpp>
#include <soma/programs/element/unary.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/loss/total.hpp>

#include <cstddef>
#include <limits>

namespace SOMA_NAMESPACE::programs {

// t (log t - x), and 0 if t is 0, even for an infinite x.
inline void divergence_tile(Core& core, const Tile& y, const Tile& x, const Tile& target,
                            Scratch& scratch) {
  const Tile logarithm = scratch.like(3, x), mask = scratch.like(2, x).as(DType::int32);
  logarithm_tile(core, logarithm, target, scratch);
  core.vector.tensor_tensor(logarithm, logarithm, x, Alu::subtract)
      .tensor_tensor(y, logarithm, target, Alu::multiply)
      .tensor_scalar(mask, target, Alu::equal, 0, Alu::subtract, 1);  // -1: all ones
  core.vector.tensor_tensor(y.as(DType::int32), y.as(DType::int32), mask, Alu::bitwise_and);
}

// loss (fp32) of x and target; sum [P, 1] = its sum.
inline void element_loss_tile(Core& core, const ElementLossSetting& setting, const Tile& result,
                              const Tile& x, const Tile& target, const Tile& sum,
                              Scratch& scratch) {
  const Tile wide = scratch.like(4, x);
  const float p = setting.parameter;
  switch (setting.loss) {
    case ElementLoss::squared_error:
      core.vector.tensor_tensor(wide, x, target, Alu::subtract);
      core.scalar.activation_reduce(result, wide, Function::square, sum);
      return;
    case ElementLoss::absolute_error:
      core.vector.tensor_tensor(wide, x, target, Alu::subtract);
      core.scalar.activation_reduce(result, wide, Function::absolute, sum);
      return;
    case ElementLoss::huber:
    case ElementLoss::smooth_absolute: {  // n (d - n / 2) with n = min(d, p)
      const Tile close_by = scratch.like(1, x);
      core.vector.tensor_tensor(wide, x, target, Alu::subtract)
          .tensor_scalar(wide, wide, Alu::absolute, 0)
          .tensor_scalar(close_by, wide, Alu::minimum, p, Alu::none, {}, {.reverse0 = true})
          .scalar_tensor_tensor(wide, close_by, Alu::multiply, -0.5f, Alu::add, wide)
          .tensor_tensor(wide, wide, close_by, Alu::multiply);
      if (setting.loss == ElementLoss::smooth_absolute)
        core.vector.tensor_scalar(wide, wide, Alu::multiply, 1 / p);
      core.scalar.activation_reduce(result, wide, Function::copy, sum);
      return;
    }
    case ElementLoss::hinge:
      core.vector.scalar_tensor_tensor(wide, x, Alu::multiply, -1, Alu::multiply, target)
          .tensor_scalar(wide, wide, Alu::add, p, Alu::maximum, 0, {.reverse1 = true});
      core.scalar.activation_reduce(result, wide, Function::copy, sum);
      return;
    case ElementLoss::divergence:
      divergence_tile(core, wide, x, target, scratch);
      core.scalar.activation_reduce(result, wide, Function::copy, sum);
      return;
    case ElementLoss::binary_cross_entropy_logits:
      break;
  }
  // |x| w + log(1 + exp(-|x|)), where w is the target's share on the other side of x: 1 - t for x
  // of zero or more, else t. With w = 0, the product is 0 even for an infinite x: it uses a clamped
  // x, and becomes infinite only if x is infinite and w is not 0.
  constexpr float largest = (std::numeric_limits<float>::max)();
  const Tile size = scratch.like(1, x), share = scratch.like(2, x), over = scratch.like(3, x);
  core.scalar.activation(size, x, Function::absolute)
      .activation(wide, size, Function::softplus, {.scale = -1});
  core.vector.tensor_scalar(share, target, Alu::multiply, -2, Alu::add, 1)
      .scalar_tensor_tensor(share, x, Alu::greater_equal, 0, Alu::multiply, share)
      .tensor_tensor(share, share, target, Alu::add)
      .tensor_scalar(over, size, Alu::greater, largest, Alu::none, {})
      .scalar_tensor_tensor(size, size, Alu::minimum, largest, Alu::multiply, share,
                            {.reverse0 = true})
      .tensor_tensor(over, over, size, Alu::multiply)
      .scalar_tensor_tensor(size, over, Alu::multiply, largest, Alu::add, size)
      .tensor_tensor(wide, wide, size, Alu::add);
  core.scalar.activation_reduce(result, wide, Function::copy, sum);
}

inline void element_loss(Core& core, const OperatorCall& call) {
  const auto& setting = call.attributes.as<ElementLossSetting>();
  const Tensor x = row_major(core, call.inputs[0]);
  const Tensor t = row_major(core, call.inputs[1]);
  const bool each = setting.reduction == LossReduction::none;
  const HbmView values = flat_view(x), targets = flat_view(t), to = flat_target(call.outputs[0]);
  const ElementTiles tiles(x.elements());
  Pair in = tiles.pair(core, x.dtype()), target_in = tiles.pair(core, t.dtype());
  Pair out = tiles.pair(core, DType::fp32), sums(core, DType::fp32, tiles.partitions(), 1);
  Scratch scratch(core, tiles.partitions(), tiles.width());
  Total total(core);
  tiles.for_each([&](std::size_t first, std::size_t rows, std::size_t columns) {
    const Tile source = in.next(rows, columns), target = target_in.next(rows, columns);
    const Tile result = out.next(rows, columns), sum = sums.next(rows, 1);
    core.dma.load(source, element_block(values, first, rows, columns))
        .load(target, element_block(targets, first, rows, columns));
    element_loss_tile(core, setting, result, source, target, sum, scratch);
    if (each)
      core.dma.queue(store_queue).store(element_block(to, first, rows, columns), result);
    else
      total.add(sum);
  });
  if (!each)
    total.store(call.outputs[0], 1 / soma::detail::loss_denominator(
                                         setting.reduction, setting.denominator, x.elements()));
}

// One number of device memory in every partition, multiplied by a constant: [P, 1].
inline Tile repeated_number(Core& core, const Tensor& number, std::size_t partitions,
                            float factor) {
  const Tile tile = column_tile(core, partitions);
  core.dma.load(tile, hbm(number.reshape(Shape{1})).broadcast_rows(partitions));
  core.vector.tensor_scalar(tile, tile, Alu::multiply, factor);
  return tile;
}

// The derivative of a loss without its constant factor.
inline void element_loss_slope(Core& core, const ElementLossSetting& setting, const Tile& slope,
                               const Tile& x, const Tile& target) {
  const float p = setting.parameter;
  switch (setting.loss) {
    case ElementLoss::squared_error:
      core.vector.tensor_tensor(slope, x, target, Alu::subtract);
      return;
    case ElementLoss::binary_cross_entropy_logits:
      core.scalar.activation(slope, x, Function::sigmoid);
      core.vector.tensor_tensor(slope, slope, target, Alu::subtract);
      return;
    case ElementLoss::absolute_error:
      core.vector.tensor_tensor(slope, x, target, Alu::subtract);
      core.scalar.activation(slope, slope, Function::sign);
      return;
    case ElementLoss::huber:
    case ElementLoss::smooth_absolute:
      core.vector.tensor_tensor(slope, x, target, Alu::subtract);
      return clamp(core, slope, slope, -p, p);
    case ElementLoss::hinge:  // t where t x < p
      core.vector.tensor_tensor(slope, x, target, Alu::multiply)
          .scalar_tensor_tensor(slope, slope, Alu::less, p, Alu::multiply, target);
      return;
    case ElementLoss::divergence:
      core.scalar.copy(slope, target);
      return;
  }
}
inline float slope_constant(const ElementLossSetting& setting) {
  switch (setting.loss) {
    case ElementLoss::squared_error:
      return 2;
    case ElementLoss::smooth_absolute:
      return 1 / setting.parameter;
    case ElementLoss::hinge:
    case ElementLoss::divergence:
      return -1;
    default:
      return 1;
  }
}

inline void element_loss_backward(Core& core, const OperatorCall& call) {
  const auto& setting = call.attributes.as<ElementLossSetting>();
  const Tensor x = row_major(core, call.inputs[0]);
  const Tensor t = row_major(core, call.inputs[1]);
  const Tensor dloss = row_major(core, call.inputs[2]);
  const bool each = setting.reduction == LossReduction::none;
  const HbmView values = flat_view(x), targets = flat_view(t), factors = flat_view(dloss);
  const HbmView to = flat_target(call.outputs[0]);
  const ElementTiles tiles(x.elements());
  Pair in = tiles.pair(core, x.dtype()), target_in = tiles.pair(core, t.dtype());
  Pair out = tiles.pair(core, to.dtype());
  Scratch scratch(core, tiles.partitions(), tiles.width());
  const float constant = slope_constant(setting);
  std::optional<Pair> factor_in;
  Tile factor;
  if (each)
    factor_in = tiles.pair(core, dloss.dtype());
  else
    factor = repeated_number(core, dloss, tiles.partitions(),
                             constant / soma::detail::loss_denominator(
                                            setting.reduction, setting.denominator, x.elements()));
  tiles.for_each([&](std::size_t first, std::size_t rows, std::size_t columns) {
    const Tile source = in.next(rows, columns), target = target_in.next(rows, columns);
    const Tile result = out.next(rows, columns), wide = scratch.like(0, source);
    core.dma.load(source, element_block(values, first, rows, columns))
        .load(target, element_block(targets, first, rows, columns));
    element_loss_slope(core, setting, wide, source, target);
    if (each) {
      const Tile own = factor_in->next(rows, columns);
      core.dma.load(own, element_block(factors, first, rows, columns));
      core.vector.scalar_tensor_tensor(result, wide, Alu::multiply, constant, Alu::multiply, own);
    } else {
      const Tile scale = factor.rows(0, rows);
      core.scalar.activation(result, wide, Function::copy, {.scale_tile = &scale});
    }
    core.dma.queue(store_queue).store(element_block(to, first, rows, columns), result);
  });
}

}  // namespace SOMA_NAMESPACE::programs
