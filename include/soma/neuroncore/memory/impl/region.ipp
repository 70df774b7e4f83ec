#pragma once
// The functions of region.hpp.

#include <soma/neuroncore/memory/region.hpp>

#include <soma/neuroncore/memory/tile.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE Region::Region(Space where, std::size_t from_partition, std::size_t to_partition,
                           std::uintptr_t first, std::size_t width, const Step* steps,
                           std::size_t dimensions)
    : space(where),
      first_partition(static_cast<std::uint32_t>(from_partition)),
      last_partition(static_cast<std::uint32_t>(to_partition)),
      first_byte(first),
      run_(static_cast<std::ptrdiff_t>(width)) {
  for (const Step* step = steps; step != steps + dimensions; ++step) {
    if (step->count < 2 || step->stride == 0) continue;
    Step upward = *step;
    if (upward.stride < 0) {
      first_byte -= static_cast<std::uintptr_t>(-reach_of(upward));
      upward.stride = -upward.stride;
    }
    std::size_t at = rank_++;
    for (; at != 0 && steps_[at - 1].stride < upward.stride; --at) steps_[at] = steps_[at - 1];
    steps_[at] = upward;
  }
  // Runs that touch are merged.
  for (; rank_ != 0 && steps_[rank_ - 1].stride <= run_; --rank_)
    run_ += reach_of(steps_[rank_ - 1]);
  last_byte = first_byte + static_cast<std::uintptr_t>(extent(0));
}

SOMA_INLINE bool Region::meets(const Region& other) const {
  if (first_partition >= other.last_partition || other.first_partition >= last_partition ||
      first_byte >= other.last_byte || other.first_byte >= last_byte)
    return false;
  std::size_t budget = 4096;
  return meet(*this, 0, other, 0, other.from(first_byte), budget);
}

SOMA_INLINE bool Region::holds(const Region& other) const {
  return first_partition <= other.first_partition && other.last_partition <= last_partition &&
         first_byte <= other.first_byte && other.last_byte <= last_byte &&
         hold(*this, 0, other, 0, other.from(first_byte));
}

SOMA_INLINE std::ptrdiff_t Region::reach_of(const Step& step) {
  return static_cast<std::ptrdiff_t>(step.count - 1) * step.stride;
}

SOMA_INLINE std::ptrdiff_t Region::from(std::uintptr_t byte) const {
  return static_cast<std::ptrdiff_t>(first_byte - byte);
}

SOMA_INLINE std::ptrdiff_t Region::extent(std::size_t dimension) const {
  std::ptrdiff_t result = run_;
  for (std::size_t i = dimension; i < rank_; ++i) result += reach_of(steps_[i]);
  return result;
}

SOMA_INLINE bool Region::meet(const Region& a, std::size_t i, const Region& b, std::size_t j,
                              std::ptrdiff_t apart, std::size_t& budget) {
  if (apart >= a.extent(i) || apart + b.extent(j) <= 0) return false;
  if ((i == a.rank_ && j == b.rank_) || budget == 0) return true;
  --budget;
  const Step none{.count = 1, .stride = 0};
  const Step &of_a = i < a.rank_ ? a.steps_[i] : none, &of_b = j < b.rank_ ? b.steps_[j] : none;
  const std::ptrdiff_t stride = (std::max)(of_a.stride, of_b.stride);
  std::ptrdiff_t low = 0, high = 0;
  if (of_a.stride == stride) high = static_cast<std::ptrdiff_t>(of_a.count - 1), ++i;
  if (of_b.stride == stride) low = -static_cast<std::ptrdiff_t>(of_b.count - 1), ++j;
  low = (std::max)(low, floor_of(apart - a.extent(i), stride) + 1);
  high = (std::min)(high, -floor_of(-(apart + b.extent(j)), stride) - 1);
  for (std::ptrdiff_t k = low; k <= high; ++k)
    if (meet(a, i, b, j, apart - k * stride, budget)) return true;
  return false;
}

SOMA_INLINE bool Region::hold(const Region& a, std::size_t i, const Region& b, std::size_t j,
                              std::ptrdiff_t apart) {
  if (apart < 0 || apart + b.extent(j) > a.extent(i)) return false;
  if (i == a.rank_) return true;
  const Step& step = a.steps_[i];
  const bool alike = j < b.rank_ && b.steps_[j].stride == step.stride;
  const std::size_t pieces = alike ? b.steps_[j].count : 1;
  const std::ptrdiff_t piece = apart / step.stride;
  if (static_cast<std::size_t>(piece) + pieces > step.count) return false;
  return hold(a, i + 1, b, alike ? j + 1 : j, apart - piece * step.stride);
}

SOMA_INLINE std::ptrdiff_t Region::floor_of(std::ptrdiff_t a, std::ptrdiff_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

SOMA_INLINE Region region_of(const Tile& tile) {
  const std::size_t width = size_of(tile.dtype());
  std::array<Step, Tile::max_dimensions> steps;
  for (std::size_t i = 0; i < tile.rank(); ++i)
    steps[i] = {tile.dimension(i).size,
                tile.dimension(i).stride * static_cast<std::ptrdiff_t>(width)};
  return {tile.memory() == Memory::sbuf ? Region::Space::sbuf : Region::Space::psum,
          tile.first_partition(),
          tile.first_partition() + tile.partitions(),
          tile.offset(),
          width,
          steps.data(),
          tile.rank()};
}

}  // namespace SOMA_NAMESPACE::neuroncore
