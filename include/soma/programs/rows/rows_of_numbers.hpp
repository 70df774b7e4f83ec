#pragma once
// Row numbers in device memory, in the layout that gathers and scatters need.

#include <soma/programs/support.hpp>

#include <algorithm>
#include <cstddef>

namespace SOMA_NAMESPACE::programs {

// Up to 128 elements of a contiguous int32 or int64 tensor, one a partition.
class NumberColumns {
 public:
  NumberColumns(Core& core, const Tensor& numbers)
      : core_(core),
        view_(hbm(numbers).flat().swap(0, 1)),
        tiles_(core, DType::int32,
               (std::min)((std::max)(numbers.elements(), std::size_t{1}), lanes), 1) {}
  Tile next(std::size_t first, std::size_t count) {
    const Tile tile = tiles_.next(count, 1);
    core_.dma.load(tile, view_.rows(first, first + count));
    return tile;
  }

 private:
  Core& core_;
  HbmView view_;
  Pair tiles_;
};

}  // namespace SOMA_NAMESPACE::programs
