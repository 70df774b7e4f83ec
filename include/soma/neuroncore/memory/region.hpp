#pragma once
// Region: the exact bytes that an instruction touches: its partitions, and in each partition the
// bytes of a strided pattern.

#include <soma/neuroncore/memory/tile.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::neuroncore {

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
         std::size_t width, const Step* steps, std::size_t dimensions);

  // True if the two have a byte in common. If the exact answer takes too long, it is true.
  bool meets(const Region& other) const;
  // True if this region contains every byte of the other; false if that is not obvious.
  bool holds(const Region& other) const;
  // A number of the pattern behind the first byte, the same for equal patterns; never 0.
  std::uint64_t pattern() const;

 private:
  static std::ptrdiff_t reach_of(const Step& step);
  std::ptrdiff_t from(std::uintptr_t byte) const;
  // The extent from the first byte to the last, over the dimensions from that one on.
  std::ptrdiff_t extent(std::size_t dimension) const;

  // Tests a from its dimension i on against b from its dimension j on, which begins `apart` bytes
  // later. The dimension with the larger stride is split into its pieces, or both dimensions if
  // their strides are equal: pieces that are k steps apart then look alike. Only pieces that can
  // reach each other are tested: one or two for equal strides, otherwise all of these.
  static bool meet(const Region& a, std::size_t i, const Region& b, std::size_t j,
                   std::ptrdiff_t apart, std::size_t& budget);
  // True if all of b lies in a; arguments as for meet().
  static bool hold(const Region& a, std::size_t i, const Region& b, std::size_t j,
                   std::ptrdiff_t apart);
  static std::ptrdiff_t floor_of(std::ptrdiff_t a, std::ptrdiff_t b);

  std::ptrdiff_t run_ = 0;  // bytes side by side
  std::size_t rank_ = 0;
  std::array<Step, max_dimensions> steps_{};  // larger strides first
};

Region region_of(const Tile& tile);

// True if two elements of `width` bytes share a byte, where the steps repeat the element: as a
// destination such a pattern has fewer places than results.
bool overlaps_itself(std::size_t width, std::span<const Step> steps);
bool overlaps_itself(const Tile& tile);
// True if both have the same elements in the same order, under any free dimensions.
bool same_elements(const Tile& a, const Tile& b);

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/memory/impl/region.ipp>
#endif
