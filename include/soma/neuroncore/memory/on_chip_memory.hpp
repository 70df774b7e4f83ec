#pragma once
// SBUF and PSUM: the bytes, their tiles, and marks of the elements that were written.
//
// Tiles are allocated like a stack: Scope (core.hpp) frees everything that was allocated since it
// began. The stack grows from either end of the memory. A tile takes the same bytes of every
// partition, as in the layout of the hardware's compiler.

#include <soma/neuroncore/machine.hpp>
#include <soma/neuroncore/memory/tile.hpp>
#include <soma/runtime/context.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/tensor/storage.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace SOMA_NAMESPACE::neuroncore {

// The result of reading memory that nobody wrote: all bits set, which is NaN in every floating type
// and -1 in the integers; or Error neuroncore.undefined.
enum class Uninitialised : std::uint8_t { nan, error };

// The end of a memory that a stack of tiles grows from.
enum class MemoryEnd : std::uint8_t { first, last };

// The last writer of an element. The array of the tensor engine may add only to elements that it
// wrote itself.
enum class Written : std::uint8_t { nobody, somebody, matmul };

class OnChipMemory {
 public:
  // A point on the stack of allocations.
  struct Mark {
    std::size_t allocations, used;
  };

  OnChipMemory(Context& context, Memory memory, const Machine& machine, Uninitialised uninitialised,
               bool everything_fp32, bool holds_numbers);

  // A tile of `partitions` partitions from the first one on, with `elements` elements in each.
  // Errors neuroncore.rule_broken: no room, no such type, too many partitions;
  // neuroncore.generation: a type of later generations; neuroncore.not_implemented: one that this
  // model lacks.
  Tile tile(const Machine& machine, DType dtype, std::size_t partitions, std::size_t elements,
            SourceLine source);

  // The end from which tiles are allocated from now on; nothing changes while there are any.
  void allocate_from(MemoryEnd end);
  Mark mark() const;
  void release(const Mark& mark);

  std::size_t capacity() const { return capacity_; }      // bytes of a partition
  std::size_t used() const { return used_; }              // now
  std::size_t high_water() const { return high_water_; }  // at most so far
  void start_high_water() { high_water_ = used_; }
  // The host's memory that this model takes for its bytes and marks.
  std::size_t host_bytes() const { return bytes_.bytes() + written_.bytes(); }

  // The first element of a partition of a tile.
  std::byte* at(const Tile& tile, std::size_t partition) const;

  // Error neuroncore.undefined: the tile's scope has ended, or the tile belongs to another core.
  void check_alive(const CallSite& call, const Operand& operand) const;

  // True if every element was written, or if reading unwritten elements is allowed.
  bool readable(const Tile& tile) const;
  // True if every element was written.
  bool written(const Tile& tile) const;
  // Error neuroncore.undefined: the tile is not readable.
  void check_read(const CallSite& call, const Operand& operand) const;
  // True if a matmul was the last writer of every element.
  bool written_by_matmul(const Tile& tile) const;
  // For a tile whose scope has ended (a late transfer) nothing is noted.
  void mark_written(const Tile& tile, Written by);
  // Marks the elements of a partition whose `chosen` is not 0. Returns true if the tile needs no
  // marks for single elements.
  bool mark_written_where(const Tile& tile, std::size_t p, std::span<const std::uint32_t> chosen);

 private:
  struct Allocation {
    std::uint64_t id;
    std::size_t begin, end;  // bytes of a partition
    std::size_t partitions;
    Written written;  // all of it; nobody: see the bytes of written_
  };

  // A number for a tile, unique among all memories of the process.
  static std::uint64_t next_id();
  std::size_t round_up(std::size_t bytes) const;
  // The distance between partitions: a cache line more than a round number, so that partitions do
  // not share cache sets of the CPU.
  std::size_t stride(std::size_t factor) const { return capacity_ * factor + 64; }
  std::byte* written_row(std::size_t partition) const;
  // Allocations are sorted by id.
  Allocation* find(const Tile& tile) const;
  // From now on each element has a mark of its own.
  void open(Allocation& allocation);
  // Calls run(offset, bytes) for each run of adjacent bytes in a partition, until run returns
  // false.
  template <class Run>
  static bool for_each_run(const Tile& tile, const Run& run) {
    const std::size_t width = size_of(tile.dtype());
    if (tile.adjacent()) return run(tile.offset(), tile.free_size() * width);
    return for_each_element(tile, [&](std::size_t offset) { return run(offset, width); });
  }
  // Calls run(offset) for each element, until run returns false.
  template <class Run>
  static bool for_each_element(const Tile& tile, const Run& run) {
    const std::size_t width = size_of(tile.dtype());
    std::size_t at[Tile::max_dimensions] = {};
    for (std::size_t left = tile.free_size(); left != 0; --left) {
      std::ptrdiff_t element = 0;
      for (std::size_t d = 0; d < tile.rank(); ++d)
        element += static_cast<std::ptrdiff_t>(at[d]) * tile.dimension(d).stride;
      if (!run(tile.offset() + static_cast<std::size_t>(element) * width)) return false;
      for (std::size_t d = tile.rank(); d-- > 0;) {
        if (++at[d] != tile.dimension(d).size) break;
        at[d] = 0;
      }
    }
    return true;
  }
  template <class Good>
  bool all_written(const Tile& tile, const Good& good) const {
    for (std::size_t p = 0; p < tile.partitions(); ++p) {
      const std::byte* states = written_row(tile.first_partition() + p);
      if (!for_each_run(tile, [&](std::size_t offset, std::size_t bytes) {
            return std::all_of(states + offset, states + offset + bytes, good);
          }))
        return false;
    }
    return true;
  }

  Memory memory_;
  Uninitialised uninitialised_;
  bool holds_numbers_;  // false: a dry run, in which there is no memory behind the tiles
  std::size_t factor_;  // memory per byte of a tile: 4 if all elements are fp32
  std::size_t partitions_, capacity_, step_;
  HeapVector<Allocation> allocations_;
  Storage bytes_, written_;
  std::size_t used_ = 0, high_water_ = 0;
  MemoryEnd end_ = MemoryEnd::first;
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/memory/impl/on_chip_memory.ipp>
#endif
