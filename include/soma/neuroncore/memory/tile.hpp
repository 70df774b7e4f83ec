#pragma once
// Tile: elements of SBUF or PSUM as an instruction sees them: consecutive partitions, and in each
// the same pattern of up to four free dimensions. core.sbuf.tile() and core.psum.tile() make tiles;
// slices, reshapes and broadcasts are made here and share the memory.
//
// A tile is a plain value: copying it copies no element. The shape of a pattern is checked here,
// and the limits of an instruction when it uses the tile.

#include <soma/neuroncore/faults.hpp>
#include <soma/tensor/dtype.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace soma::neuroncore {

enum class Memory : std::uint8_t { sbuf, psum };

constexpr std::string_view to_string(Memory memory) {
  return memory == Memory::sbuf ? "SBUF" : "PSUM";
}

struct FreeDimension {
  std::size_t size = 1;
  std::ptrdiff_t stride = 1;  // elements
};

class Tile {
 public:
  static constexpr std::size_t max_dimensions = 4;

  Tile() = default;
  // Used by the memories. `wide`: floating elements are held as fp32.
  Tile(Memory memory, DType dtype, bool wide, std::size_t partitions, std::size_t offset,
       std::size_t address, std::size_t elements, std::uint64_t allocation)
      : memory_(memory),
        dtype_(dtype),
        wide_(wide),
        partitions_(partitions),
        offset_(offset),
        address_(address),
        allocation_(allocation) {
    dimensions_[0] = {elements, 1};
  }

  bool defined() const { return allocation_ != 0; }
  Memory memory() const { return memory_; }
  DType dtype() const { return dtype_; }
  // The type in which elements are held in memory: their own, or fp32
  // (CoreOptions::everything_fp32). Rules and costs of an instruction follow dtype() and offset();
  // its data lie at address() in this type.
  DType held() const { return wide_ && is_floating(dtype_) ? DType::fp32 : dtype_; }
  std::size_t width() const { return size_of(held()); }  // bytes
  // The difference between the exponent bias of a cFP8 tile and that of its type (with_bias()).
  int bias_offset() const { return bias_offset_; }
  std::size_t first_partition() const { return first_partition_; }
  std::size_t partitions() const { return partitions_; }
  // The offset in bytes of the first element of a partition: on the hardware, and in this model.
  std::size_t offset() const { return offset_; }
  std::size_t address() const { return address_; }
  std::uint64_t allocation() const { return allocation_; }
  std::size_t rank() const { return rank_; }  // free dimensions
  const FreeDimension& dimension(std::size_t i) const { return dimensions_[i]; }
  // The number of elements in a partition.
  std::size_t free_size() const {
    std::size_t size = 1;
    for (std::size_t i = 0; i < rank_; ++i) size *= dimensions_[i].size;
    return size;
  }
  // True if a partition's elements are adjacent.
  bool adjacent() const {
    std::ptrdiff_t step = 1;
    for (std::size_t i = rank_; i-- > 0;) {
      if (dimensions_[i].size != 1 && dimensions_[i].stride != step) return false;
      step *= static_cast<std::ptrdiff_t>(dimensions_[i].size);
    }
    return true;
  }

  // Partitions begin to end of this tile.
  Tile rows(std::size_t begin, std::size_t end) const {
    if (begin > end || end > partitions_)
      rule_broken("Tile::rows", "range", range(begin, end),
                  "within the " + std::to_string(partitions_) + " partitions");
    Tile part = *this;
    part.first_partition_ += begin;
    part.partitions_ = end - begin;
    return part;
  }
  // Elements begin, begin + step ... below end: columns() of the last free dimension, slice() of
  // another.
  Tile columns(std::size_t begin, std::size_t end, std::size_t step = 1) const {
    return slice(rank_ - 1, begin, end, step);
  }
  Tile slice(std::size_t dimension, std::size_t begin, std::size_t end,
             std::size_t step = 1) const {
    if (dimension >= rank_ || begin > end || end > dimensions_[dimension].size || step == 0)
      rule_broken("Tile::slice", "range", range(begin, end),
                  "within " + describe() + ", step at least 1");
    Tile part = *this;
    FreeDimension& cut = part.dimensions_[dimension];
    part.offset_ = moved(offset_, begin * size_of(dtype_), cut.stride);
    part.address_ = moved(address_, begin * width(), cut.stride);
    cut.size = (end - begin + step - 1) / step;
    cut.stride *= static_cast<std::ptrdiff_t>(step);
    return part;
  }
  // The same elements under other free dimensions. The tile must be adjacent.
  Tile reshape(std::initializer_list<std::size_t> sizes) const {
    std::size_t elements = 1;
    for (const std::size_t size : sizes) elements *= size;
    if (sizes.size() == 0 || sizes.size() > max_dimensions || !adjacent() ||
        elements != free_size())
      rule_broken("Tile::reshape", "sizes", std::to_string(elements) + " elements",
                  "1 to 4 free dimensions of the adjacent elements of " + describe());
    Tile result = *this;
    result.rank_ = sizes.size();
    std::size_t i = sizes.size();
    std::ptrdiff_t step = 1;
    for (const std::size_t* size = sizes.end(); size != sizes.begin();) {
      --size;
      result.dimensions_[--i] = {*size, step};
      step *= static_cast<std::ptrdiff_t>(*size);
    }
    return result;
  }
  // A free dimension of size 1, read `size` times.
  Tile broadcast(std::size_t dimension, std::size_t size) const {
    if (dimension >= rank_ || dimensions_[dimension].size != 1)
      rule_broken("Tile::broadcast", "dimension", std::to_string(dimension),
                  "a free dimension of size 1 of " + describe());
    Tile result = *this;
    result.dimensions_[dimension] = {size, 0};
    return result;
  }
  // Exchanges two free dimensions.
  Tile swap(std::size_t a, std::size_t b) const {
    if (a >= rank_ || b >= rank_)
      rule_broken("Tile::swap", "dimensions", range(a, b), "free dimensions of " + describe());
    Tile result = *this;
    std::swap(result.dimensions_[a], result.dimensions_[b]);
    return result;
  }
  // The same bytes as another type of the same width, with that type's own bias. Error
  // neuroncore.not_implemented: a narrow floating type that is held as fp32 has no such bytes.
  Tile as(DType dtype) const {
    if (size_of(dtype) != size_of(dtype_))
      rule_broken("Tile::as", "dtype", std::string(to_string(dtype)),
                  "a type of " + std::to_string(size_of(dtype_)) + " bytes");
    if (wide_ && dtype != dtype_ && size_of(dtype) < 4 &&
        (is_floating(dtype) || is_floating(dtype_)))
      not_implemented("Tile::as", "dtype", std::string(to_string(dtype)) + " for " + describe(),
                      "narrow numbers with bits of their own: without everything_fp32");
    Tile result = *this;
    result.dtype_ = dtype;
    result.bias_offset_ = 0;
    return result;
  }
  // A cFP8 tile with the exponent bias `bias` instead of its type's: values are 2^(default - bias)
  // times as large.
  Tile with_bias(int bias) const {
    if (!is_floating(dtype_) || size_of(dtype_) != 1 || bias < -64 || bias > 64)
      rule_broken("Tile::with_bias", "bias", std::to_string(bias) + " of " + describe(),
                  "-64 to 64, of an 8-bit floating type");
    Tile result = *this;
    result.bias_offset_ = bias - format_of(dtype_).bias;
    return result;
  }
  // The format of a floating type that is held in its own type, with the bias of this tile.
  FloatFormat format() const {
    FloatFormat format = format_of(dtype_);
    format.bias += bias_offset_;
    return format;
  }

  // "bf16 SBUF [128, 4 x 512]"
  std::string describe() const {
    if (!defined()) return "no tile";
    std::string text(to_string(dtype_));
    if (bias_offset_ != 0) text.append(" with bias ").append(std::to_string(format().bias));
    text.append(" ").append(to_string(memory_)).append(" [").append(std::to_string(partitions_));
    text.append(", ");
    for (std::size_t i = 0; i < rank_; ++i)
      text.append(i == 0 ? "" : " x ").append(std::to_string(dimensions_[i].size));
    return text.append("]");
  }

 private:
  static std::string range(std::size_t begin, std::size_t end) {
    return std::to_string(begin) + " to " + std::to_string(end);
  }

  static std::size_t moved(std::size_t from, std::size_t bytes, std::ptrdiff_t stride) {
    return static_cast<std::size_t>(static_cast<std::ptrdiff_t>(from) +
                                    static_cast<std::ptrdiff_t>(bytes) * stride);
  }

  Memory memory_ = Memory::sbuf;
  DType dtype_ = DType::fp32;
  bool wide_ = false;
  int bias_offset_ = 0;
  std::size_t first_partition_ = 0, partitions_ = 0, offset_ = 0, address_ = 0;
  std::uint64_t allocation_ = 0;
  std::size_t rank_ = 1;
  std::array<FreeDimension, max_dimensions> dimensions_{};
};

}  // namespace soma::neuroncore
