#pragma once
// The functions of storage.hpp.

#include <soma/tensor/storage.hpp>

#include <soma/base/sizes.hpp>
#include <soma/runtime/heap.hpp>
#include <soma/tensor/owner.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace SOMA_NAMESPACE {

SOMA_INLINE Storage Storage::allocate(Heap& heap, std::size_t bytes) {
  const std::size_t total = checked_add(bytes, sizeof(detail::StorageBlock), "Storage");
  auto* block = static_cast<std::byte*>(heap.allocate(total));
  return Storage(::new (block) detail::StorageBlock{.heap = &heap,
                                                    .data = block + sizeof(detail::StorageBlock),
                                                    .bytes = bytes,
                                                    .id = heap.next_id(),
                                                    .owner = {}});
}

SOMA_INLINE Storage Storage::adopt(Heap& heap, std::byte* data, std::size_t bytes, Owner owner,
                                   bool writable) {
  void* block = heap.allocate(sizeof(detail::StorageBlock));
  return Storage(::new (block) detail::StorageBlock{.heap = &heap,
                                                    .data = data,
                                                    .bytes = bytes,
                                                    .id = heap.next_id(),
                                                    .owner = std::move(owner),
                                                    .writable = writable});
}

SOMA_INLINE Storage::Storage(const Storage& other) : block_(other.block_) {
  if (block_ != nullptr) block_->references.fetch_add(1, std::memory_order_relaxed);
}

SOMA_INLINE Storage& Storage::operator=(Storage other) noexcept {
  std::swap(block_, other.block_);
  return *this;
}

SOMA_INLINE Storage::~Storage() {
  if (block_ == nullptr || block_->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  Heap* heap = block_->heap;
  block_->~StorageBlock();
  heap->deallocate(block_);
}

SOMA_INLINE std::byte* Storage::data() const { return block().data; }

SOMA_INLINE std::size_t Storage::bytes() const { return block().bytes; }

SOMA_INLINE bool Storage::writable() const { return block().writable; }

SOMA_INLINE const Heap& Storage::heap() const { return *block().heap; }

SOMA_INLINE std::uint64_t Storage::version() const { return block().version; }

SOMA_INLINE void Storage::advance_version() const { ++block().version; }

SOMA_INLINE void Storage::set_version(std::uint64_t version) const { block().version = version; }

SOMA_INLINE void Storage::before_read() const {
  if (block_ != nullptr && block_->pending_write) block_->pending->run_pending(identity());
}

SOMA_INLINE void Storage::before_write() const {
  if (block_ != nullptr && block_->pending != nullptr) block_->pending->run_pending(identity());
}

SOMA_INLINE void Storage::set_pending(PendingCalls* calls, bool write) const {
  block().pending = calls;
  block().pending_handles = calls == nullptr ? 0 : block().pending_handles + 1;
  block().pending_write = calls != nullptr && (write || block().pending_write);
}

SOMA_INLINE std::uintptr_t Storage::identity() const {
  return reinterpret_cast<std::uintptr_t>(block_);
}

SOMA_INLINE std::uint64_t Storage::id() const { return block().id; }

SOMA_INLINE std::size_t Storage::handles() const {
  return block().references.load(std::memory_order_acquire);
}

SOMA_INLINE bool Storage::unique() const {
  return block().references.load(std::memory_order_acquire) == 1 + block().pending_handles;
}

SOMA_INLINE detail::StorageBlock& Storage::block() const {
  if (block_ == nullptr) refuse();
  return *block_;
}

SOMA_INLINE void Storage::refuse() {
  fail(error_id::tensor_undefined, "Tensor", "tensor", "no tensor", "one with elements");
}

}  // namespace SOMA_NAMESPACE
