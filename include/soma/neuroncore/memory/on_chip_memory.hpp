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

namespace soma::neuroncore {

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
               bool everything_fp32, bool holds_numbers)
      : memory_(memory),
        uninitialised_(uninitialised),
        holds_numbers_(holds_numbers),
        factor_(everything_fp32 ? 4 : 1),
        partitions_(machine.partitions),
        capacity_(memory == Memory::sbuf ? machine.sbuf_partition_bytes
                                         : machine.psum_partition_bytes()),
        step_(memory == Memory::sbuf ? machine.sbuf_align : machine.psum_bank_bytes),
        allocations_(context.heap()),
        bytes_(
            Storage::allocate(context.heap(), holds_numbers ? stride(factor_) * partitions_ : 0)),
        written_(Storage::allocate(context.heap(), stride(1) * partitions_)) {}

  // A tile of `partitions` partitions from the first one on, with `elements` elements in each.
  // Errors neuroncore.rule_broken: no room, no such type, too many partitions.
  Tile tile(const Machine& machine, DType dtype, std::size_t partitions, std::size_t elements) {
    const std::string_view name = memory_ == Memory::sbuf ? "sbuf.tile" : "psum.tile";
    if (!machine.has(dtype))
      rule_broken(name, "dtype", std::string(to_string(dtype)),
                  "a type that " + std::string(machine.name) + " has");
    if (partitions == 0 || partitions > partitions_)
      rule_broken(name, "partitions", std::to_string(partitions),
                  "1 to " + std::to_string(partitions_));
    if (elements == 0 || elements > capacity_)
      rule_broken(name, "elements", std::to_string(elements),
                  "1 to the " + std::to_string(capacity_) + " bytes of a partition");
    const std::size_t wanted = round_up(elements * size_of(dtype));
    if (wanted > capacity_ - used_)
      rule_broken(
          name, "tile",
          std::to_string(wanted) + " bytes a partition with " + std::to_string(used_) + " in use",
          "at most " + std::to_string(capacity_) + " together");
    const std::uint64_t id = next_id();
    const std::size_t begin =
        end_ == MemoryEnd::first ? used_ : capacity_ / step_ * step_ - used_ - wanted;
    allocations_.push_back(
        {id, begin, begin + elements * size_of(dtype), partitions, Written::nobody});
    const Tile tile(memory_, dtype, factor_ != 1, partitions, begin, begin * factor_, elements, id);
    for (std::size_t p = 0; p < partitions; ++p) {
      if (holds_numbers_ && uninitialised_ == Uninitialised::nan)
        std::memset(at(tile, p), 0xFF, elements * tile.width());
      std::memset(written_row(p) + tile.offset(), 0, elements * size_of(dtype));
    }
    used_ += wanted;
    high_water_ = (std::max)(high_water_, used_);
    return tile;
  }

  // The end from which tiles are allocated from now on; nothing changes while there are any.
  void allocate_from(MemoryEnd end) {
    if (used_ == 0) end_ = end;
  }
  Mark mark() const { return {allocations_.size(), used_}; }
  void release(const Mark& mark) {
    allocations_.resize(mark.allocations);
    used_ = mark.used;
  }

  std::size_t capacity() const { return capacity_; }      // bytes of a partition
  std::size_t used() const { return used_; }              // now
  std::size_t high_water() const { return high_water_; }  // at most so far
  void start_high_water() { high_water_ = used_; }

  // The first element of a partition of a tile.
  std::byte* at(const Tile& tile, std::size_t partition) const {
    return bytes_.data() + (tile.first_partition() + partition) * stride(factor_) + tile.address();
  }

  // Error neuroncore.undefined: the tile's scope has ended, or the tile belongs to another core.
  void check_alive(std::string_view instruction, std::string_view operand, const Tile& tile) const {
    if (find(tile) == nullptr)
      undefined(instruction, operand,
                tile.describe() + " after its scope ended, or of another core",
                "a live tile of this core");
  }

  // True if every element was written, or if reading unwritten elements is allowed.
  bool readable(const Tile& tile) const {
    return uninitialised_ == Uninitialised::nan || written(tile);
  }
  // True if every element was written.
  bool written(const Tile& tile) const {
    return find(tile)->written != Written::nobody ||
           all_written(tile, [](std::byte state) { return state != std::byte{0}; });
  }
  // Error neuroncore.undefined: the tile is not readable.
  void check_read(std::string_view instruction, std::string_view operand, const Tile& tile) const {
    if (!readable(tile))
      undefined(instruction, operand, tile.describe() + " with elements that nobody wrote",
                "elements that were written");
  }
  // True if a matmul was the last writer of every element.
  bool written_by_matmul(const Tile& tile) const {
    const Written all = find(tile)->written;
    if (all != Written::nobody) return all == Written::matmul;
    return all_written(
        tile, [](std::byte state) { return state == static_cast<std::byte>(Written::matmul); });
  }
  // For a tile whose scope has ended (a late transfer) nothing is noted.
  void mark_written(const Tile& tile, Written by) {
    Allocation* const found = find(tile);
    if (found == nullptr || found->written == by) return;
    Allocation& allocation = *found;
    const bool whole = tile.adjacent() && tile.first_partition() == 0 &&
                       tile.partitions() == allocation.partitions &&
                       tile.offset() == allocation.begin &&
                       tile.offset() + tile.free_size() * size_of(tile.dtype()) == allocation.end;
    if (whole) {
      allocation.written = by;
      return;
    }
    open(allocation);
    for (std::size_t p = 0; p < tile.partitions(); ++p)
      for_each_run(tile, [&](std::size_t offset, std::size_t bytes) {
        std::memset(written_row(tile.first_partition() + p) + offset, static_cast<int>(by), bytes);
        return true;
      });
  }
  // Marks the elements of a partition whose `chosen` is not 0. Returns true if the tile needs no
  // marks for single elements.
  bool mark_written_where(const Tile& tile, std::size_t p, std::span<const std::uint32_t> chosen) {
    Allocation* const found = find(tile);
    if (found == nullptr || found->written == Written::somebody) return true;
    open(*found);
    std::size_t element = 0;
    const std::size_t width = size_of(tile.dtype());
    for_each_element(tile, [&](std::size_t offset) {
      if (chosen[element++] != 0)
        std::memset(written_row(tile.first_partition() + p) + offset,
                    static_cast<int>(Written::somebody), width);
      return true;
    });
    return std::find(chosen.begin(), chosen.end(), 0u) == chosen.end();
  }

 private:
  struct Allocation {
    std::uint64_t id;
    std::size_t begin, end;  // bytes of a partition
    std::size_t partitions;
    Written written;  // all of it; nobody: see the bytes of written_
  };

  // A number for a tile, unique among all memories of the process.
  static std::uint64_t next_id() {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  std::size_t round_up(std::size_t bytes) const { return (bytes + step_ - 1) / step_ * step_; }
  // The distance between partitions: a cache line more than a round number, so that partitions do
  // not share cache sets of the CPU.
  std::size_t stride(std::size_t factor) const { return capacity_ * factor + 64; }
  std::byte* written_row(std::size_t partition) const {
    return written_.data() + partition * stride(1);
  }
  // Allocations are sorted by id.
  Allocation* find(const Tile& tile) const {
    auto* begin = const_cast<Allocation*>(allocations_.begin());
    auto* end = const_cast<Allocation*>(allocations_.end());
    auto* found = std::lower_bound(
        begin, end, tile.allocation(),
        [](const Allocation& allocation, std::uint64_t id) { return allocation.id < id; });
    return found != end && found->id == tile.allocation() ? found : nullptr;
  }
  // From now on each element has a mark of its own.
  void open(Allocation& allocation) {
    if (allocation.written == Written::nobody) return;
    for (std::size_t p = 0; p < allocation.partitions; ++p)
      std::memset(written_row(p) + allocation.begin, static_cast<int>(allocation.written),
                  allocation.end - allocation.begin);
    allocation.written = Written::nobody;
  }
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

}  // namespace soma::neuroncore
