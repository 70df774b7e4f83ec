#pragma once
// The functions of region.hpp.

#include <soma/neuroncore/memory/region.hpp>

#include <soma/neuroncore/memory/tile.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

SOMA_INLINE std::uint64_t Region::pattern() const {
  std::uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a, word by word
  const auto add = [&hash](std::ptrdiff_t word) {
    hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x100000001B3u;
  };
  add(run_);
  for (std::size_t i = 0; i < rank_; ++i) {
    add(steps_[i].stride);
    add(static_cast<std::ptrdiff_t>(steps_[i].count));
  }
  return hash | 1;
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

namespace detail {

SOMA_INLINE std::span<const Step> steps_of(const Tile& tile,
                                           std::array<Step, Tile::max_dimensions>& steps) {
  const auto width = static_cast<std::ptrdiff_t>(size_of(tile.dtype()));
  for (std::size_t i = 0; i < tile.rank(); ++i)
    steps[i] = {tile.dimension(i).size, tile.dimension(i).stride * width};
  return {steps.data(), tile.rank()};
}

}  // namespace detail

SOMA_INLINE Region region_of(const Tile& tile) {
  std::array<Step, Tile::max_dimensions> steps;
  return {tile.memory() == Memory::sbuf ? Region::Space::sbuf : Region::Space::psum,
          tile.first_partition(),
          tile.first_partition() + tile.partitions(),
          tile.offset(),
          size_of(tile.dtype()),
          detail::steps_of(tile, steps).data(),
          tile.rank()};
}

SOMA_INLINE bool overlaps_itself(std::size_t width, std::span<const Step> steps) {
  std::vector<Step> sorted;
  for (const Step& step : steps) {
    if (step.count == 0) return false;
    if (step.count == 1) continue;
    if (step.stride == 0) return true;
    sorted.push_back({step.count, step.stride < 0 ? -step.stride : step.stride});
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const Step& a, const Step& b) { return a.stride < b.stride; });
  auto extent = static_cast<std::ptrdiff_t>(width);
  bool nested = true;  // each step goes past everything that the smaller steps reach
  for (const Step& step : sorted) {
    nested = nested && step.stride >= extent;
    extent += static_cast<std::ptrdiff_t>(step.count - 1) * step.stride;
  }
  if (nested) return false;
  // Steps that go between each other: all places are compared.
  std::vector<std::ptrdiff_t> places{0};
  for (const Step& step : sorted) {
    const std::size_t before = places.size();
    for (std::size_t i = 1; i < step.count; ++i)
      for (std::size_t j = 0; j < before; ++j)
        places.push_back(places[j] + static_cast<std::ptrdiff_t>(i) * step.stride);
  }
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end(), [width](auto a, auto b) {
           return b - a < static_cast<std::ptrdiff_t>(width);
         }) != places.end();
}

SOMA_INLINE bool overlaps_itself(const Tile& tile) {
  if (tile.adjacent()) return false;
  std::array<Step, Tile::max_dimensions> steps;
  return overlaps_itself(size_of(tile.dtype()), detail::steps_of(tile, steps));
}

SOMA_INLINE bool same_elements(const Tile& a, const Tile& b) {
  if (a.memory() != b.memory() || a.first_partition() != b.first_partition() ||
      a.partitions() != b.partitions() || a.offset() != b.offset() ||
      size_of(a.dtype()) != size_of(b.dtype()) || a.free_size() != b.free_size())
    return false;
  if (a.adjacent() || b.adjacent()) return a.adjacent() && b.adjacent();
  // Dimensions of one element and dimensions that continue each other make no difference.
  const auto merged = [](const Tile& tile) {
    std::vector<FreeDimension> result;
    for (std::size_t i = 0; i < tile.rank(); ++i) {
      const FreeDimension& next = tile.dimension(i);
      if (next.size == 1) continue;
      if (!result.empty() &&
          result.back().stride == next.stride * static_cast<std::ptrdiff_t>(next.size))
        result.back() = {result.back().size * next.size, next.stride};
      else
        result.push_back(next);
    }
    return result;
  };
  const std::vector<FreeDimension> x = merged(a), y = merged(b);
  return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [](const FreeDimension& left, const FreeDimension& right) {
                      return left.size == right.size && left.stride == right.stride;
                    });
}

}  // namespace SOMA_NAMESPACE::neuroncore
