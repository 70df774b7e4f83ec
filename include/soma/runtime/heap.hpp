#pragma once
// Heap: memory that is allocated, freed in any order and reused. Tensors and tapes live here:
// repeated work requests no more memory from the host after its first rounds. (Usually after the
// first round; the second round finds other free blocks than the first, and may need one more.)
// Work of other sizes that needs less memory in total nearly always fits in the memory that the
// heap holds, an eighth of which is slack. No allocator that never moves blocks can promise a fit:
// to be sure, reserve a block well above the expected peak_bytes() in advance.
//
// Segregated fits with immediate coalescing, after "TLSF: a new dynamic memory allocator for
// real-time systems" (Masmano, Ripoll, Crespo, Real, 2004): a bitmap of size classes leads to a
// free block in the smallest class that has one large enough, and the rest of the block stays free.
// Neighbours that are free become one block. Headers lie in front of the blocks.

#include <soma/base/sizes.hpp>
#include <soma/runtime/memory.hpp>
#include <soma/system/threads.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

namespace SOMA_NAMESPACE {

// Thread-safe. Blocks are aligned to memory_alignment, never to more. A block costs 64 bytes beside
// its content. Allocation and deallocation take constant time, except for the search among the
// blocks of one size class.
class Heap {
 public:
  explicit Heap(MemoryResource upstream) : upstream_(upstream) {}
  // Gives all memory back to the host, including blocks that are still in use.
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Uninitialised. Error memory.exhausted.
  void* allocate(std::size_t bytes);

  // A block of this heap; its size is known here.
  void deallocate(void* data);

  // Makes sure that one more block of `bytes` can be allocated without a request to the host. Error
  // memory.exhausted.
  void reserve(std::size_t bytes);

  // Returns slabs in which nothing is in use to the host.
  void trim();

  // A dry run of an accelerator's core has written zeros to tensors of this heap in place of
  // results: code that saves numbers refuses numbers from a heap with this mark.
  void mark_dry();
  bool dry() const;

  // A number that this heap has not given out before, from 1: it tells storages apart whose
  // addresses are the same, because one began after the other had ended.
  std::uint64_t next_id();

  std::size_t blocks_in_use() const;
  // The requested bytes in use, in whole units with one header per block. A block that is a unit
  // larger than its request, because no smaller block was free, counts as requested. So the same
  // requests give the same count, whatever the heap held before.
  std::size_t bytes_in_use() const;
  std::size_t peak_bytes() const;
  void reset_peak();

 private:
  static constexpr std::size_t unit = memory_alignment;
  static constexpr std::size_t slab_unit = detail::large_page;

  struct alignas(unit) Block {
    std::size_t size;  // bytes with this header, a multiple of `unit`; 0: the end of a slab
    Block* previous;   // in memory; nullptr: the first of a slab
    Block *next_free, *previous_free;
    bool free;
    std::size_t used = 0;  // the used part of `size`, as long as the block is not free

    std::byte* data();
    Block* next();
  };
  static_assert(sizeof(Block) == unit);

  struct alignas(unit) Slab {
    Slab* next;
    std::size_t bytes;
    Block* first();
  };
  static_assert(sizeof(Slab) == unit);

  // Size classes: each number of units below 16, then eight to an octave.
  static constexpr std::size_t class_count = 16 + 55 * 8;
  static std::size_t class_of(std::size_t size);

  static std::size_t block_size(std::size_t bytes);

  static void poison([[maybe_unused]] Block* block);
  static void unpoison([[maybe_unused]] Block* block, [[maybe_unused]] std::size_t bytes);

  void insert(Block* block);
  void remove(Block* block);

  // The smallest block of the request's own class that fits, else any of the next class that has
  // one.
  Block* find(std::size_t size);

  // Adds a slab with one free block of at least `size` bytes, in whole large pages. The slab has at
  // least an eighth of the present capacity, so that a slowly growing need does not ask the host
  // every time. If the host has less memory left, the slab is as small as possible.
  Block* grow(std::size_t size);
  // Returns nullptr if the host has no such block. With -fno-exceptions the host then ends the
  // program.
  void* ask(std::size_t bytes) const;
  void release(Slab** link);

  MemoryResource upstream_;
  mutable Mutex mutex_;
  Slab* slabs_ = nullptr;
  std::array<Block*, class_count> heads_{};
  std::array<std::uint64_t, (class_count + 63) / 64> bitmap_{};
  std::size_t blocks_ = 0, in_use_ = 0, peak_ = 0, capacity_ = 0;
  bool dry_ = false;
  std::atomic<std::uint64_t> last_id_{0};
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/runtime/impl/heap.ipp>
#endif
