#pragma once
// The functions of support.hpp.

#include <soma/programs/support.hpp>

#include <soma/neuroncore/core.hpp>
#include <soma/ops/program.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>

namespace SOMA_NAMESPACE::programs {

SOMA_INLINE HbmView element_block(const HbmView& view, std::size_t first, std::size_t partitions,
                                  std::size_t columns) {
  return view.flat().columns(first, first + partitions * columns).as_rows(columns);
}

SOMA_INLINE neuroncore::DrawPosition position_of(DropoutArgs args, std::size_t row,
                                                 std::size_t column) {
  soma::detail::shift_draws(args, row, column);
  return {.draw = args.draw,
          .partition_step = args.draw_row_stride,
          .partition_indices = args.row_indices};
}

SOMA_INLINE Pair::Pair(Core& core, DType dtype, std::size_t partitions, std::size_t elements)
    : tiles_{core.sbuf.tile(dtype, partitions, elements),
             core.sbuf.tile(dtype, partitions, elements)} {}

SOMA_INLINE Tile Pair::next(std::size_t partitions, std::size_t elements) {
  turn_ ^= 1;
  return tiles_[turn_].rows(0, partitions).columns(0, elements);
}

SOMA_INLINE ElementTiles::ElementTiles(std::size_t count)
    : count_(count),
      width_(count <= one_row ? (std::max)(count, std::size_t{1})
                              : std::clamp((count + lanes - 1) / lanes, shortest, piece)) {}

SOMA_INLINE std::size_t ElementTiles::partitions() const {
  return std::clamp(count_ / width_, std::size_t{1}, lanes);
}

SOMA_INLINE Pair ElementTiles::pair(Core& core, DType dtype) const {
  return Pair(core, dtype, partitions(), width_);
}

}  // namespace SOMA_NAMESPACE::programs
