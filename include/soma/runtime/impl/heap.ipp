#pragma once
// The functions of heap.hpp.

#include <soma/runtime/heap.hpp>

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

#if SOMA_LINUX
// Weak, so that the library, which is compiled without the address sanitizer, marks free memory for
// a program that is compiled with it. They are null in other programs.
extern "C" {
[[gnu::weak]] void __asan_poison_memory_region(const volatile void* begin, std::size_t bytes);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* begin, std::size_t bytes);
}
#endif

namespace SOMA_NAMESPACE::detail {

// Other linkers leave no function undefined: free memory is not marked there.
inline void mark_free([[maybe_unused]] const void* begin, [[maybe_unused]] std::size_t bytes) {
#if SOMA_LINUX
  if (__asan_poison_memory_region != nullptr) __asan_poison_memory_region(begin, bytes);
#endif
}

inline void mark_used([[maybe_unused]] const void* begin, [[maybe_unused]] std::size_t bytes) {
#if SOMA_LINUX
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(begin, bytes);
#endif
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE Heap::~Heap() {
  while (slabs_ != nullptr) release(&slabs_);
}

SOMA_INLINE void* Heap::allocate(std::size_t bytes) {
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

SOMA_INLINE void Heap::deallocate(void* data) {
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

SOMA_INLINE void Heap::reserve(std::size_t bytes) {
  const std::size_t size = block_size(bytes);
  const Mutex::Lock lock(mutex_);
  if (find(size) == nullptr) grow(size);
}

SOMA_INLINE void Heap::trim() {
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

SOMA_INLINE void Heap::mark_dry() {
  const Mutex::Lock lock(mutex_);
  dry_ = true;
}

SOMA_INLINE bool Heap::dry() const {
  const Mutex::Lock lock(mutex_);
  return dry_;
}

SOMA_INLINE std::uint64_t Heap::next_id() {
  return last_id_.fetch_add(1, std::memory_order_relaxed) + 1;
}

SOMA_INLINE std::size_t Heap::blocks_in_use() const {
  const Mutex::Lock lock(mutex_);
  return blocks_;
}

SOMA_INLINE std::size_t Heap::bytes_in_use() const {
  const Mutex::Lock lock(mutex_);
  return in_use_;
}

SOMA_INLINE std::size_t Heap::peak_bytes() const {
  const Mutex::Lock lock(mutex_);
  return peak_;
}

SOMA_INLINE void Heap::reset_peak() {
  const Mutex::Lock lock(mutex_);
  peak_ = in_use_;
}

SOMA_INLINE std::byte* Heap::Block::data() {
  return reinterpret_cast<std::byte*>(this) + sizeof(Block);
}

SOMA_INLINE auto Heap::Block::next() -> Block* {
  return reinterpret_cast<Block*>(reinterpret_cast<std::byte*>(this) + size);
}

SOMA_INLINE auto Heap::Slab::first() -> Block* {
  return reinterpret_cast<Block*>(reinterpret_cast<std::byte*>(this) + sizeof(Slab));
}

SOMA_INLINE std::size_t Heap::class_of(std::size_t size) {
  const std::size_t units = size / unit;
  if (units < 16) return units;
  const auto octave = static_cast<std::size_t>(std::bit_width(units)) - 1;
  return 16 + (octave - 4) * 8 + ((units >> (octave - 3)) & 7);
}

SOMA_INLINE std::size_t Heap::block_size(std::size_t bytes) {
  return checked_add((std::max)(bytes, std::size_t{1}), unit - 1 + sizeof(Block), "Heap") / unit *
         unit;
}

SOMA_INLINE void Heap::poison(Block* block) {
  detail::mark_free(block->data(), block->size - sizeof(Block));
}

SOMA_INLINE void Heap::unpoison(Block* block, std::size_t bytes) {
  detail::mark_used(block->data(), bytes);
}

SOMA_INLINE void Heap::insert(Block* block) {
  const std::size_t index = class_of(block->size);
  block->free = true;
  block->previous_free = nullptr;
  block->next_free = heads_[index];
  if (heads_[index] != nullptr) heads_[index]->previous_free = block;
  heads_[index] = block;
  bitmap_[index / 64] |= std::uint64_t{1} << (index % 64);
}

SOMA_INLINE void Heap::remove(Block* block) {
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

SOMA_INLINE auto Heap::find(std::size_t size) -> Block* {
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

SOMA_INLINE auto Heap::grow(std::size_t size) -> Block* {
  const std::size_t least = checked_add(size, sizeof(Slab) + sizeof(Block), "Heap");
  std::size_t bytes =
      checked_add((std::max)(least, capacity_ / 8), slab_unit - 1, "Heap") / slab_unit * slab_unit;
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

SOMA_INLINE void* Heap::ask(std::size_t bytes) const {
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

SOMA_INLINE void Heap::release(Slab** link) {
  Slab* slab = *link;
  const std::size_t bytes = slab->bytes;
  *link = slab->next;
  capacity_ -= bytes;
  detail::mark_used(slab, bytes);
  upstream_.deallocate(slab, bytes, unit);
}

}  // namespace SOMA_NAMESPACE
