#pragma once
// Moves a row of device memory to a partition and back, and a tile to another: the building blocks
// of transfers.

#include <soma/neuroncore/core_state.hpp>
#include <soma/neuroncore/memory/hbm.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore::detail {

// Calls each(element, offset) for a row's elements in order, with offsets in elements.
template <class Each>
void for_each_in_row(const HbmView& view, std::size_t row, const Each& each) {
  const std::size_t rank = view.rank();
  std::size_t at[HbmView::max_rank] = {};
  const std::size_t inner = view.size(rank - 1), step = view.stride(rank - 1);
  const std::size_t count = view.row_elements();
  for (std::size_t element = 0; element < count;) {
    std::size_t offset = row * view.stride(0);
    for (std::size_t d = 1; d + 1 < rank; ++d) offset += at[d] * view.stride(d);
    for (std::size_t i = 0; i < inner; ++i, offset += step) each(element++, offset);
    for (std::size_t d = rank - 1; d-- > 1;) {
      if (++at[d] != view.size(d)) break;
      at[d] = 0;
    }
  }
}

// Copies the stored bytes of a row, side by side, to and from `codes`.
template <std::size_t width>
void collect_row(const HbmView& view, std::size_t row, std::byte* codes) {
  for_each_in_row(view, row, [&](std::size_t element, std::size_t offset) {
    std::memcpy(codes + element * width, view.data() + offset * width, width);
  });
}
template <std::size_t width>
void spread_row(const HbmView& view, std::size_t row, const std::byte* codes) {
  for_each_in_row(view, row, [&](std::size_t element, std::size_t offset) {
    std::memcpy(view.mutable_data() + offset * width, codes + element * width, width);
  });
}
void read_codes(const HbmView& view, std::size_t row, void* codes);
void write_codes(const HbmView& view, std::size_t row, const void* codes);

// Sets all bits to zero: 0 in every type of a tensor that a core writes.
void write_zeros(const HbmView& view);

std::int64_t integer_at(DType dtype, const std::byte* at);
void put_integer(DType dtype, std::byte* at, float value);

// Reads a row as floats.
void read_floats(CoreState& core, const HbmView& view, std::size_t row, float* to);
// `codes`: scratch memory for the row's bytes.
void write_floats(CoreState& core, const HbmView& view, std::size_t row, const float* values,
                  void* codes);

PartitionWriter writer_of(CoreState& core, const Tile& tile);

// Loads row `row` of a view into partition p. `buffer` holds twice the elements.
void load_row(CoreState& core, const CallSite& call, const PartitionWriter& writer,
              const Tile& tile, std::size_t p, const HbmView& view, std::size_t row, float* buffer);
// Stores partition p in row `row` of a view.
void store_row(CoreState& core, const Tile& tile, std::size_t p, const HbmView& view,
               std::size_t row, float* buffer);

// Copies the elements of a tile to another, both partition by partition.
void copy_tile(CoreState& core, const Tile& dst, const Tile& src);

}  // namespace SOMA_NAMESPACE::neuroncore::detail

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/memory/impl/hbm_rows.ipp>
#endif
