#pragma once
// Region: the exact bytes that an instruction touches: its partitions, and in each partition the
// bytes of a strided pattern.

#include <soma/neuroncore/memory/tile.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace soma::neuroncore {

// A dimension of a pattern, in bytes.
struct Step {
  std::size_t count = 1;
  std::ptrdiff_t stride = 0;
};

// In SBUF and PSUM, bytes count from the beginning of a partition. HBM has one "partition", whose
// bytes are addresses.
class Region {
 public:
  enum class Space : std::uint8_t { sbuf, psum, hbm } space = Space::sbuf;
  std::uint32_t first_partition = 0, last_partition = 0;  // one past the end
  std::uintptr_t first_byte = 0, last_byte = 0;           // the pattern's bytes; one past the end

  static constexpr std::size_t max_dimensions = 4;

  Region() = default;
  // `width` bytes at `first`, repeated along up to four dimensions.
  Region(Space where, std::size_t from_partition, std::size_t to_partition, std::uintptr_t first,
         std::size_t width, const Step* steps, std::size_t dimensions)
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

  // True if the two have a byte in common. If the exact answer takes too long, it is true.
  bool meets(const Region& other) const {
    if (first_partition >= other.last_partition || other.first_partition >= last_partition ||
        first_byte >= other.last_byte || other.first_byte >= last_byte)
      return false;
    std::size_t budget = 4096;
    return meet(*this, 0, other, 0, other.from(first_byte), budget);
  }
  // True if this region contains every byte of the other; false if that is not obvious.
  bool holds(const Region& other) const {
    return first_partition <= other.first_partition && other.last_partition <= last_partition &&
           first_byte <= other.first_byte && other.last_byte <= last_byte &&
           hold(*this, 0, other, 0, other.from(first_byte));
  }

 private:
  static std::ptrdiff_t reach_of(const Step& step) {
    return static_cast<std::ptrdiff_t>(step.count - 1) * step.stride;
  }
  std::ptrdiff_t from(std::uintptr_t byte) const {
    return static_cast<std::ptrdiff_t>(first_byte - byte);
  }
  // The extent from the first byte to the last, over the dimensions from that one on.
  std::ptrdiff_t extent(std::size_t dimension) const {
    std::ptrdiff_t result = run_;
    for (std::size_t i = dimension; i < rank_; ++i) result += reach_of(steps_[i]);
    return result;
  }

  // Tests a from its dimension i on against b from its dimension j on, which begins `apart` bytes
  // later. The dimension with the larger stride is split into its pieces, or both dimensions if
  // their strides are equal: pieces that are k steps apart then look alike. Only pieces that can
  // reach each other are tested: one or two for equal strides, otherwise all of these.
  static bool meet(const Region& a, std::size_t i, const Region& b, std::size_t j,
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
  // True if all of b lies in a; arguments as for meet().
  static bool hold(const Region& a, std::size_t i, const Region& b, std::size_t j,
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
  static std::ptrdiff_t floor_of(std::ptrdiff_t a, std::ptrdiff_t b) {
    return a / b - (a % b < 0 ? 1 : 0);
  }

  std::ptrdiff_t run_ = 0;  // bytes side by side
  std::size_t rank_ = 0;
  std::array<Step, max_dimensions> steps_{};  // larger strides first
};

inline Region region_of(const Tile& tile) {
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

}  // namespace soma::neuroncore
