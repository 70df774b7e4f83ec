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
#include <soma/runtime/mutex.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

#if defined(__SANITIZE_ADDRESS__)
#define SOMA_HEAP_POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SOMA_HEAP_POISONS 1
#endif
#endif
#ifdef SOMA_HEAP_POISONS
#include <sanitizer/asan_interface.h>
#endif

namespace soma {

// Thread-safe. Blocks are aligned to memory_alignment, never to more. A block costs 64 bytes beside
// its content. Allocation and deallocation take constant time, except for the search among the
// blocks of one size class.
class Heap {
 public:
  explicit Heap(MemoryResource upstream) : upstream_(upstream) {}
  // Gives all memory back to the host, including blocks that are still in use.
  ~Heap() {
    while (slabs_ != nullptr) release(&slabs_);
  }
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  // Uninitialised. Error memory.exhausted.
  void* allocate(std::size_t bytes) {
    const std::size_t size = block_size(bytes);
    const Mutex::Lock lock(mutex_);
    Block* block = find(size);
    if (block == nullptr) block = grow(size);
    remove(block);
    if (block->size - size >= 2 * unit) {
      unpoison(block, size);  // the header of the remaining free block lies inside
      const std::size_t left = block->size - size;
      block->size = size;
      auto* rest = ::new (block->next()) Block{left, block, nullptr, nullptr, true};
      rest->next()->previous = rest;
      insert(rest);
      poison(block);
    }
    unpoison(block, bytes);
    block->used = size;
    in_use_ += size;
    ++blocks_;
    peak_ = (std::max)(peak_, in_use_);
    return block->data();
  }

  // A block of this heap; its size is known here.
  void deallocate(void* data) {
    auto* block = reinterpret_cast<Block*>(static_cast<std::byte*>(data) - sizeof(Block));
    const Mutex::Lock lock(mutex_);
    in_use_ -= block->used;
    --blocks_;
    if (Block* next = block->next(); next->free) {
      remove(next);
      block->size += next->size;
      block->next()->previous = block;
    }
    if (Block* previous = block->previous; previous != nullptr && previous->free) {
      remove(previous);
      previous->size += block->size;
      previous->next()->previous = previous;
      block = previous;
    }
    insert(block);
    poison(block);
  }

  // Makes sure that one more block of `bytes` can be allocated without a request to the host. Error
  // memory.exhausted.
  void reserve(std::size_t bytes) {
    const std::size_t size = block_size(bytes);
    const Mutex::Lock lock(mutex_);
    if (find(size) == nullptr) grow(size);
  }

  // Returns slabs in which nothing is in use to the host.
  void trim() {
    const Mutex::Lock lock(mutex_);
    for (Slab** link = &slabs_; *link != nullptr;) {
      Block* first = (*link)->first();
      if (first->free && first->next()->size == 0) {
        remove(first);
        release(link);
      } else {
        link = &(*link)->next;
      }
    }
  }

  // A dry run of an accelerator's core has written zeros to tensors of this heap in place of
  // results: code that saves numbers refuses numbers from a heap with this mark.
  void mark_dry() {
    const Mutex::Lock lock(mutex_);
    dry_ = true;
  }
  bool dry() const {
    const Mutex::Lock lock(mutex_);
    return dry_;
  }

  std::size_t blocks_in_use() const {
    const Mutex::Lock lock(mutex_);
    return blocks_;
  }
  // The requested bytes in use, in whole units with one header per block. A block that is a unit
  // larger than its request, because no smaller block was free, counts as requested. So the same
  // requests give the same count, whatever the heap held before.
  std::size_t bytes_in_use() const {
    const Mutex::Lock lock(mutex_);
    return in_use_;
  }
  std::size_t peak_bytes() const {
    const Mutex::Lock lock(mutex_);
    return peak_;
  }
  void reset_peak() {
    const Mutex::Lock lock(mutex_);
    peak_ = in_use_;
  }

 private:
  static constexpr std::size_t unit = memory_alignment;
  static constexpr std::size_t slab_unit = detail::large_page;

  struct alignas(unit) Block {
    std::size_t size;  // bytes with this header, a multiple of `unit`; 0: the end of a slab
    Block* previous;   // in memory; nullptr: the first of a slab
    Block *next_free, *previous_free;
    bool free;
    std::size_t used = 0;  // the used part of `size`, as long as the block is not free

    std::byte* data() { return reinterpret_cast<std::byte*>(this) + sizeof(Block); }
    Block* next() { return reinterpret_cast<Block*>(reinterpret_cast<std::byte*>(this) + size); }
  };
  static_assert(sizeof(Block) == unit);

  struct alignas(unit) Slab {
    Slab* next;
    std::size_t bytes;
    Block* first() {
      return reinterpret_cast<Block*>(reinterpret_cast<std::byte*>(this) + sizeof(Slab));
    }
  };
  static_assert(sizeof(Slab) == unit);

  // Size classes: each number of units below 16, then eight to an octave.
  static constexpr std::size_t class_count = 16 + 55 * 8;
  static std::size_t class_of(std::size_t size) {
    const std::size_t units = size / unit;
    if (units < 16) return units;
    const auto octave = static_cast<std::size_t>(std::bit_width(units)) - 1;
    return 16 + (octave - 4) * 8 + ((units >> (octave - 3)) & 7);
  }

  static std::size_t block_size(std::size_t bytes) {
    return checked_add((std::max)(bytes, std::size_t{1}), unit - 1 + sizeof(Block), "Heap") / unit *
           unit;
  }

  static void poison([[maybe_unused]] Block* block) {
#ifdef SOMA_HEAP_POISONS
    ASAN_POISON_MEMORY_REGION(block->data(), block->size - sizeof(Block));
#endif
  }
  static void unpoison([[maybe_unused]] Block* block, [[maybe_unused]] std::size_t bytes) {
#ifdef SOMA_HEAP_POISONS
    ASAN_UNPOISON_MEMORY_REGION(block->data(), bytes);
#endif
  }

  void insert(Block* block) {
    const std::size_t index = class_of(block->size);
    block->free = true;
    block->previous_free = nullptr;
    block->next_free = heads_[index];
    if (heads_[index] != nullptr) heads_[index]->previous_free = block;
    heads_[index] = block;
    bitmap_[index / 64] |= std::uint64_t{1} << (index % 64);
  }
  void remove(Block* block) {
    const std::size_t index = class_of(block->size);
    block->free = false;
    if (block->next_free != nullptr) block->next_free->previous_free = block->previous_free;
    if (block->previous_free != nullptr) {
      block->previous_free->next_free = block->next_free;
    } else {
      heads_[index] = block->next_free;
      if (heads_[index] == nullptr) bitmap_[index / 64] &= ~(std::uint64_t{1} << (index % 64));
    }
  }

  // The smallest block of the request's own class that fits, else any of the next class that has
  // one.
  Block* find(std::size_t size) {
    const std::size_t own = class_of(size);
    Block* best = nullptr;
    for (Block* block = heads_[own]; block != nullptr; block = block->next_free)
      if (block->size >= size && (best == nullptr || block->size < best->size)) best = block;
    if (best != nullptr) return best;
    for (std::size_t word = (own + 1) / 64; word < bitmap_.size(); ++word) {
      std::uint64_t bits = bitmap_[word];
      if (word == (own + 1) / 64) bits &= ~std::uint64_t{0} << ((own + 1) % 64);
      if (bits != 0) return heads_[word * 64 + static_cast<std::size_t>(std::countr_zero(bits))];
    }
    return nullptr;
  }

  // Adds a slab with one free block of at least `size` bytes, in whole large pages. The slab has at
  // least an eighth of the present capacity, so that a slowly growing need does not ask the host
  // every time. If the host has less memory left, the slab is as small as possible.
  Block* grow(std::size_t size) {
    const std::size_t least = checked_add(size, sizeof(Slab) + sizeof(Block), "Heap");
    std::size_t bytes = checked_add((std::max)(least, capacity_ / 8), slab_unit - 1, "Heap") /
                        slab_unit * slab_unit;
    void* memory = bytes > least ? ask(bytes) : nullptr;
    if (memory == nullptr) memory = upstream_.allocate(bytes = least, unit);
    if (memory == nullptr)  // a counted resource has already failed
      fail(error_id::out_of_memory, "Heap", "size", std::to_string(bytes) + " bytes",
           "no more than the memory resource has left");
    auto* slab = ::new (memory) Slab{slabs_, bytes};
    slabs_ = slab;
    capacity_ += bytes;
    auto* block = ::new (slab->first())
        Block{bytes - sizeof(Slab) - sizeof(Block), nullptr, nullptr, nullptr, true};
    ::new (block->next()) Block{0, block, nullptr, nullptr, false};
    insert(block);
    poison(block);
    return block;
  }
  // Returns nullptr if the host has no such block. With -fno-exceptions the host then ends the
  // program.
  void* ask(std::size_t bytes) const {
#if SOMA_HAS_EXCEPTIONS
    try {
      return upstream_.allocate(bytes, unit);
    } catch (const std::bad_alloc&) {
      return nullptr;
    } catch (const Error&) {  // a counted resource's memory.exhausted
      return nullptr;
    }
#else
    return upstream_.allocate(bytes, unit);
#endif
  }
  void release(Slab** link) {
    Slab* slab = *link;
    const std::size_t bytes = slab->bytes;
    *link = slab->next;
    capacity_ -= bytes;
#ifdef SOMA_HEAP_POISONS
    ASAN_UNPOISON_MEMORY_REGION(slab, bytes);
#endif
    upstream_.deallocate(slab, bytes, unit);
  }

  MemoryResource upstream_;
  mutable Mutex mutex_;
  Slab* slabs_ = nullptr;
  std::array<Block*, class_count> heads_{};
  std::array<std::uint64_t, (class_count + 63) / 64> bitmap_{};
  std::size_t blocks_ = 0, in_use_ = 0, peak_ = 0, capacity_ = 0;
  bool dry_ = false;
};

}  // namespace soma
