#pragma once
// Element-wise functions with a setting: a few instructions of the Vector engine. Powers run on the
// host, because the engine that has them (GpSimd) is not accurate enough.

#include <soma/ops/element/parametric.hpp>
#include <soma/programs/element/unary_backward.hpp>
#include <soma/programs/inputs.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE::programs {

namespace detail {

inline void parametric_tile(Core& core, const ClampSetting& setting, const Tile& y, const Tile& x,
                            Scratch&) {
  clamp(core, y, x, setting.low, setting.high);
}
// max(x, 0) + slope min(x, 0).
inline void parametric_tile(Core& core, const LeakySetting& setting, const Tile& y, const Tile& x,
                            Scratch& scratch) {
  const Tile below = scratch.like(0, x);
  core.vector
      .tensor_scalar(below, x, Alu::minimum, 0, Alu::multiply, setting.slope, {.reverse0 = true})
      .scalar_tensor_tensor(y, x, Alu::maximum, 0, Alu::add, below);
}

inline void parametric_backward_tile(Core& core, const ClampSetting& setting, const Tile& dx,
                                     const Tile& x, const Tile& dy, Scratch& scratch) {
  cut_gradient(core, dx, x, dy, Alu::less, setting.low, Alu::greater, setting.high, scratch);
}
inline void parametric_backward_tile(Core& core, const LeakySetting& setting, const Tile& dx,
                                     const Tile& x, const Tile& dy, Scratch& scratch) {
  const Tile slope = scratch.like(0, x);
  core.vector.tensor_scalar(slope, x, Alu::greater, 0, Alu::multiply, 1 - setting.slope)
      .scalar_tensor_tensor(dx, slope, Alu::add, setting.slope, Alu::multiply, dy);
}

}  // namespace detail

template <class Setting>
void parametric(Core& core, const OperatorCall& call) {
  const auto& setting = call.attributes.as<Setting>();
  const Tensor x = row_major(core, call.inputs[0]);
  const HbmView from = flat_view(x), to = flat_target(call.outputs[0]);
  const ElementTiles tiles(x.elements());
  Pair in = tiles.pair(core, x.dtype()), out = tiles.pair(core, to.dtype());
  Scratch scratch(core, tiles.partitions(), tiles.width());
  tiles.for_each([&](std::size_t first, std::size_t rows, std::size_t columns) {
    const Tile source = in.next(rows, columns), result = out.next(rows, columns);
    core.dma.load(source, element_block(from, first, rows, columns));
    detail::parametric_tile(core, setting, result, source, scratch);
    core.dma.queue(store_queue).store(element_block(to, first, rows, columns), result);
  });
}

template <class Setting>
void parametric_backward(Core& core, const OperatorCall& call) {
  const auto& setting = call.attributes.as<Setting>();
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
    detail::parametric_backward_tile(core, setting, result, source, gradient, scratch);
    core.dma.queue(store_queue).store(element_block(to, first, rows, columns), result);
  });
}

}  // namespace SOMA_NAMESPACE::programs
