#pragma once
// Cast: a copy by the Scalar engine that rounds as asked. Stochastic rounding draws at the
// element's number in the tensor.

#include <soma/ops/views/views.hpp>
#include <soma/programs/pieces.hpp>

#include <cstddef>

namespace soma::programs {

inline void cast(Core& core, const OperatorCall& call) {
  const auto& setting = call.attributes.as<CastSetting>();
  const Tensor x = contiguous(call.context, call.inputs[0]);
  const HbmView from = flat_view(x);
  const HbmView to = flat_target(call.outputs[0]);
  const ElementTiles tiles(x.elements());
  Pair in = tiles.pair(core, x.dtype()), out = tiles.pair(core, setting.dtype);
  tiles.for_each([&](std::size_t first, std::size_t rows, std::size_t columns) {
    const Tile source = in.next(rows, columns), result = out.next(rows, columns);
    core.dma.load(source, element_block(from, first, rows, columns));
    neuroncore::Rounded rounded{.rounding = setting.rounding,
                                .place = {.draw = setting.draw, .partition_step = columns}};
    rounded.place.draw.index += first;
    core.scalar.copy(result, source, rounded);
    core.dma.queue(store_queue).store(element_block(to, first, rows, columns), result);
  });
}

}  // namespace soma::programs
