#pragma once
// Stochastic rounding draws by the element's number in the tensor. The engine makes integers as the
// host does by default: nearest even, saturated, NaN as 0. Integers of 32 bits pass through fp32;
// the core has none of 64.

#include <soma/ops/views/cast.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/pieces.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE::programs {

inline void cast(Core& core, const OperatorCall& call) {
  const auto& setting = call.attributes.as<CastSetting>();
  if (!is_floating(setting.dtype) && setting.rounding.mode != RoundingMode::nearest_even)
    fail(error_id::operator_value, "cast", "rounding.mode", "not nearest_even",
         "nearest_even for integers on a NeuronCore");
  const Tensor x = row_major(core, call.inputs[0]);
  const HbmView from = flat_view(x);
  const HbmView to = flat_target(call.outputs[0]);
  const ElementTiles tiles(x.elements());
  Pair in = tiles.pair(core, x.dtype()), out = tiles.pair(core, setting.dtype);
  tiles.for_each([&](std::size_t first, std::size_t rows, std::size_t columns) {
    const Tile source = in.next(rows, columns), result = out.next(rows, columns);
    core.dma.load(source, element_block(from, first, rows, columns));
    neuroncore::Rounded rounded{.rounding = setting.rounding,
                                .position = {.draw = setting.draw, .partition_step = columns}};
    rounded.position.draw.index += first;
    core.scalar.copy(result, source, rounded);
    core.dma.queue(store_queue).store(element_block(to, first, rows, columns), result);
  });
}

}  // namespace SOMA_NAMESPACE::programs
