#pragma once
// Reads the elements of one partition as floats, and writes them back. All engines compute in fp32:
// inputs are widened, results are rounded once (guide: "inputs are cast to FP32 on read, FP32 math,
// cast to the destination's type on write").

#include <soma/neuroncore/engines/engine_kernels.hpp>
#include <soma/neuroncore/memory/on_chip_memory.hpp>
#include <soma/neuroncore/memory/tile.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/numeric/rounding.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

namespace SOMA_NAMESPACE::neuroncore {

// The logical position of a tile's elements in their whole tensor. It is the key of random draws,
// so that a draw depends neither on tiling nor on the order of execution. Element f of partition p
// draws at
//     draw.index + (partition_indices ? partition_indices[p] : p * partition_step) + f.
struct DrawPosition {
  Draw draw{};
  std::uint64_t partition_step = 0;
  const std::uint64_t* partition_indices = nullptr;

  Draw of_partition(std::size_t p) const;
};

// The rounding of results, and their position for stochastic rounding.
struct Rounded {
  Rounding rounding{};
  DrawPosition position{};
};

namespace detail {

// Calls each(offset) for each element of a partition, in order; offsets are in elements.
template <class Each>
void for_each_element(const Tile& tile, const Each& each) {
  std::size_t at[Tile::max_dimensions] = {};
  const std::size_t inner = tile.rank() - 1;
  const FreeDimension& last = tile.dimension(inner);
  std::size_t element = 0;
  for (std::size_t left = tile.free_size() / (std::max)(last.size, std::size_t{1}); left != 0;
       --left) {
    std::ptrdiff_t offset = 0;
    for (std::size_t d = 0; d < inner; ++d)
      offset += static_cast<std::ptrdiff_t>(at[d]) * tile.dimension(d).stride;
    for (std::size_t i = 0; i < last.size; ++i, offset += last.stride) each(element++, offset);
    for (std::size_t d = inner; d-- > 0;) {
      if (++at[d] != tile.dimension(d).size) break;
      at[d] = 0;
    }
  }
}

template <class T>
void collect(const Tile& tile, const std::byte* from, T* to) {
  for_each_element(tile, [&](std::size_t element, std::ptrdiff_t offset) {
    std::memcpy(to + element, from + offset * static_cast<std::ptrdiff_t>(sizeof(T)), sizeof(T));
  });
}
template <class T>
void spread(const Tile& tile, const T* from, std::byte* to) {
  for_each_element(tile, [&](std::size_t element, std::ptrdiff_t offset) {
    std::memcpy(to + offset * static_cast<std::ptrdiff_t>(sizeof(T)), from + element, sizeof(T));
  });
}

// Applies the exponent bias of a cFP8 tile to numbers that are held as fp32.
void scale_by_bias(float* values, std::size_t count, int bias_offset);

// To nearest even.
template <class Integer>
float integer_as_float(const std::byte* at) {
  Integer value;
  std::memcpy(&value, at, sizeof value);
  return static_cast<float>(value);
}

// Rounds to nearest even and saturates; NaN gives 0, which the documents leave open.
template <class Integer>
Integer to_integer(float value) {
  if (value != value) return 0;
  const double rounded = std::nearbyint(static_cast<double>(value));
  constexpr double low = static_cast<double>((std::numeric_limits<Integer>::min)());
  constexpr double high = static_cast<double>((std::numeric_limits<Integer>::max)());
  return static_cast<Integer>((std::min)((std::max)(rounded, low), high));
}

}  // namespace detail

// The stored bytes of a partition, side by side. A boolean reads as 0 or 1 whatever its byte,
// because arithmetic and Tile::as() do not define it.
void read_codes(const OnChipMemory& memory, const Tile& tile, std::size_t p, void* to);
void write_codes(const OnChipMemory& memory, const Tile& tile, std::size_t p, const void* from);

// Reads a tile, partition by partition.
class PartitionReader {
 public:
  PartitionReader(const EngineKernels& kernels, const OnChipMemory& memory, const Tile& tile);
  // Elements of partition p: in place, or in the buffer, which holds free_size() floats.
  const float* read(std::size_t p, float* buffer) const;
  // The same, always in the buffer.
  void copy(std::size_t p, float* buffer) const;

 private:
  float one(const std::byte* at) const;

  const EngineKernels& kernels_;
  const OnChipMemory& memory_;
  const Tile& tile_;
  CodecParams codec_{};
  std::size_t count_;
  bool direct_;
};

// Writes a tile, partition by partition.
class PartitionWriter {
 public:
  PartitionWriter(const EngineKernels& kernels, const OnChipMemory& memory, const Tile& tile,
                  const Rounded& rounded, Overflow overflow);
  // `values` may be read a few floats beyond its end if it is a padded buffer; `scratch` holds
  // free_size() elements of 4 bytes and is not `values`.
  void write(std::size_t p, const float* values, void* scratch) const;

 private:
  template <class Integer>
  void integers(std::size_t p, const float* values, std::size_t count, void* scratch) const {
    auto* out = static_cast<Integer*>(scratch);
    for (std::size_t i = 0; i < count; ++i) out[i] = detail::to_integer<Integer>(values[i]);
    write_codes(memory_, tile_, p, out);
  }

  const EngineKernels& kernels_;
  const OnChipMemory& memory_;
  const Tile& tile_;
  const Rounded& rounded_;
  CodecParams codec_{};
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/memory/impl/partition_io.ipp>
#endif
