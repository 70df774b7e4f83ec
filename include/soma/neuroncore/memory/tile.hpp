#pragma once
// Tile: elements of SBUF or PSUM as an instruction sees them: consecutive partitions, and in each
// the same pattern of up to four free dimensions. core.sbuf.tile() and core.psum.tile() make tiles;
// slices, reshapes and broadcasts are made here and share the memory.
//
// A tile is a plain value: copying it copies no element. The shape of a pattern is checked here,
// and the limits of an instruction when it uses the tile.

#include <soma/neuroncore/faults.hpp>
#include <soma/neuroncore/memory/pattern_step.hpp>
#include <soma/neuroncore/source_line.hpp>
#include <soma/tensor/dtype.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::neuroncore {

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
       std::size_t address, std::size_t elements, std::uint64_t allocation, SourceLine made);

  bool defined() const { return allocation_ != 0; }
  Memory memory() const { return memory_; }
  DType dtype() const { return dtype_; }
  // The type in which elements are held in memory: their own, or fp32
  // (CoreOptions::everything_fp32). Rules and costs of an instruction follow dtype() and offset();
  // its data lie at address() in this type.
  DType held() const;
  std::size_t width() const;  // bytes
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
  std::size_t free_size() const;
  // True if a partition's elements are adjacent.
  bool adjacent() const;
  // The number of elements side by side from the first element of a partition on.
  std::size_t run() const;

  // The same tile under a name, a literal, by which errors call it and everything sliced from it.
  // A tile without a name is called by the line that made it.
  Tile named(const char* name) const;
  // "tile weights", or "tile of softmax.cpp:12"
  std::string label() const;

  // Every function below names the line of its call in an error; Error neuroncore.rule_broken.

  // Partitions begin to end of this tile.
  Tile rows(std::size_t begin, std::size_t end, SourceLine source = calling_line()) const;
  // Elements begin, begin + step ... below end: columns() of the last free dimension, slice() of
  // another.
  Tile columns(std::size_t begin, std::size_t end, std::size_t step = 1,
               SourceLine source = calling_line()) const;
  Tile slice(std::size_t dimension, std::size_t begin, std::size_t end, std::size_t step = 1,
             SourceLine source = calling_line()) const;
  // The same elements under other free dimensions. The tile must be adjacent.
  Tile reshape(std::initializer_list<std::size_t> sizes, SourceLine source = calling_line()) const;
  // The elements of an access pattern of one to four free dimensions. It begins `offset` elements
  // after the first element of each partition of this tile, and may reach all that the memory gave
  // out with it: a slice does not confine it. The partitions are those of this tile, because they
  // have no stride on this hardware. Elements may occur more than once where the pattern is read,
  // but not where it is written.
  Tile pattern(std::span<const PatternStep> steps, std::size_t offset = 0,
               SourceLine source = calling_line()) const;
  Tile pattern(std::initializer_list<PatternStep> steps, std::size_t offset = 0,
               SourceLine source = calling_line()) const;
  // Adjacent numbers of 8 bits, four to a pack as MX products read them: [N x 4], pack j is
  // elements 4 j to 4 j + 3.
  Tile packed4(SourceLine source = calling_line()) const;
  // A free dimension of size 1, read `size` times.
  Tile broadcast(std::size_t dimension, std::size_t size, SourceLine source = calling_line()) const;
  // Exchanges two free dimensions.
  Tile swap(std::size_t a, std::size_t b, SourceLine source = calling_line()) const;
  // The same bytes as another type of the same width, with that type's own bias. Error
  // neuroncore.not_implemented: a narrow floating type that is held as fp32 has no such bytes.
  Tile as(DType dtype, SourceLine source = calling_line()) const;
  // A cFP8 tile with the exponent bias `bias` instead of its type's: values are 2^(default - bias)
  // times as large.
  Tile with_bias(int bias, SourceLine source = calling_line()) const;
  // The format of a floating type that is held in its own type, with the bias of this tile.
  FloatFormat format() const;

  // "bf16 SBUF [128, 4 x 512]"
  std::string describe() const;

 private:
  static std::string range(std::size_t begin, std::size_t end);

  static std::size_t moved(std::size_t from, std::size_t bytes, std::ptrdiff_t stride);

  Memory memory_ = Memory::sbuf;
  DType dtype_ = DType::fp32;
  bool wide_ = false;
  int bias_offset_ = 0;
  std::size_t first_partition_ = 0, partitions_ = 0, offset_ = 0, address_ = 0;
  std::size_t begin_ = 0, end_ = 0;  // bytes of a partition that the memory gave out
  std::uint64_t allocation_ = 0;
  const char* name_ = "";
  SourceLine made_;
  std::size_t rank_ = 1;
  std::array<FreeDimension, max_dimensions> dimensions_{};
};

// A tile as an operand of an instruction.
struct Operand {
  std::string_view name;
  const Tile& tile;

  // "dst (tile weights)"
  std::string text() const;
};

// The errors of faults.hpp about an operand: they name its tile.
[[noreturn]] void rule_broken(const CallSite& call, const Operand& operand,
                              const std::string& value, std::string_view limit);
[[noreturn]] void undefined(const CallSite& call, const Operand& operand, const std::string& value,
                            std::string_view limit);
[[noreturn]] void not_implemented(const CallSite& call, const Operand& operand,
                                  const std::string& value, std::string_view limit);
void at_most(const CallSite& call, const Operand& operand, std::size_t value, std::size_t limit,
             std::string_view what);

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/memory/impl/tile.ipp>
#endif
