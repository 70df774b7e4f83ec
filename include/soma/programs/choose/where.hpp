#pragma once
// where: the elements of b, overwritten by those of a where the condition holds. Bits only move.

#include <soma/ops/choose/where.hpp>
#include <soma/programs/inputs.hpp>
#include <soma/programs/support.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE::programs {

inline void where(Core& core, const OperatorCall& call) {
  const Tensor& y = call.outputs[0];
  const auto whole = [&](std::size_t i) {
    return flat_view(row_major(core, call.inputs[i].broadcast_to(y.shape())));
  };
  const DType type = plain_type(y.dtype());
  const HbmView condition = whole(0).as(DType::uint8), a = whole(1).as(type), b = whole(2).as(type),
                to = flat_target(y).as(type);
  const ElementTiles tiles(y.elements());
  Pair conditions = tiles.pair(core, DType::uint8), first = tiles.pair(core, type),
       out = tiles.pair(core, type);
  tiles.for_each([&](std::size_t at, std::size_t rows, std::size_t columns) {
    const Tile chosen = conditions.next(rows, columns), source = first.next(rows, columns),
               result = out.next(rows, columns);
    core.dma.load(chosen, element_block(condition, at, rows, columns))
        .load(source, element_block(a, at, rows, columns))
        .load(result, element_block(b, at, rows, columns));
    core.vector.copy_predicated(result, source, chosen);
    core.dma.queue(store_queue).store(element_block(to, at, rows, columns), result);
  });
}

}  // namespace SOMA_NAMESPACE::programs
