#pragma once
// TileView: the elements of a tile as C++ objects, for tests that read and set them. Instructions
// use the run-time description (Tile); this is its typed counterpart.

#include <soma/neuroncore/memory/on_chip_memory.hpp>
#include <soma/neuroncore/memory/tile.hpp>

#include <cstddef>
#include <string>
#include <type_traits>

namespace SOMA_NAMESPACE::neuroncore {

// T is the C++ type in which the tile is held, const or not.
template <class T>
class TileView {
 public:
  // Used by Core::view(). Error tensor.dtype.
  TileView(OnChipMemory& memory, const Tile& tile) : memory_(&memory), tile_(tile) {
    if (dtype_of<std::remove_const_t<T>> != tile.held())
      fail(error_id::tensor_dtype, "TileView", "tile",
           tile.describe().append(" held as ").append(to_string(tile.held())),
           std::string(to_string(dtype_of<std::remove_const_t<T>>)));
  }
  std::size_t partitions() const { return tile_.partitions(); }
  std::size_t free_size() const { return tile_.free_size(); }

  // Element (i, j ...) of a partition, with one index for each free dimension.
  template <class... Index>
  T& operator()(std::size_t partition, Index... index) const {
    const std::size_t indices[] = {static_cast<std::size_t>(index)...};
    std::ptrdiff_t offset = 0;
    for (std::size_t d = 0; d < sizeof...(Index); ++d)
      offset += static_cast<std::ptrdiff_t>(indices[d]) * tile_.dimension(d).stride;
    std::byte* const at =
        memory_->at(tile_, partition) + offset * static_cast<std::ptrdiff_t>(sizeof(T));
    // As in read_codes(): C++ knows no other booleans. The byte is written only if necessary,
    // because several threads may read.
    if constexpr (std::is_same_v<std::remove_const_t<T>, bool>)
      if (*at > std::byte{1}) *at = std::byte{1};
    return *reinterpret_cast<T*>(at);
  }

 private:
  OnChipMemory* memory_;
  Tile tile_;
};

}  // namespace SOMA_NAMESPACE::neuroncore
