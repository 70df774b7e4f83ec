#pragma once
// Storage: the bytes that tensors share, counted by reference, with a version that every write
// advances: what autograd compares to notice a change after it has kept a value.

#include <soma/base/sizes.hpp>
#include <soma/runtime/heap.hpp>
#include <soma/tensor/owner.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace soma {

namespace detail {

struct alignas(memory_alignment) StorageBlock {
  std::atomic<std::size_t> references{1};
  Heap* heap;
  std::byte* data;
  std::size_t bytes;
  std::uint64_t version = 0;
  Owner owner;  // of adopted data
  bool writable = true;
};

}  // namespace detail

// Handle of a storage; empty by default. Counting is thread-safe, everything else is as safe as the
// bytes themselves.
class Storage {
 public:
  Storage() = default;

  // Uninitialised bytes, aligned to memory_alignment. Errors base.size_overflow, memory.exhausted.
  static Storage allocate(Heap& heap, std::size_t bytes) {
    const std::size_t total = checked_add(bytes, sizeof(detail::StorageBlock), "Storage");
    auto* block = static_cast<std::byte*>(heap.allocate(total));
    return Storage(::new (block) detail::StorageBlock{
        .heap = &heap, .data = block + sizeof(detail::StorageBlock), .bytes = bytes, .owner = {}});
  }
  // Bytes of somebody else, who stays alive as long as `owner` is held.
  static Storage adopt(Heap& heap, std::byte* data, std::size_t bytes, Owner owner, bool writable) {
    void* block = heap.allocate(sizeof(detail::StorageBlock));
    return Storage(::new (block) detail::StorageBlock{.heap = &heap,
                                                      .data = data,
                                                      .bytes = bytes,
                                                      .owner = std::move(owner),
                                                      .writable = writable});
  }

  Storage(const Storage& other) : block_(other.block_) {
    if (block_ != nullptr) block_->references.fetch_add(1, std::memory_order_relaxed);
  }
  Storage(Storage&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  Storage& operator=(Storage other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~Storage() {
    if (block_ == nullptr || block_->references.fetch_sub(1, std::memory_order_acq_rel) != 1)
      return;
    Heap* heap = block_->heap;
    block_->~StorageBlock();
    heap->deallocate(block_);
  }

  explicit operator bool() const { return block_ != nullptr; }
  // Of a storage that is there. Error tensor.undefined.
  std::byte* data() const { return block().data; }
  std::size_t bytes() const { return block().bytes; }
  bool writable() const { return block().writable; }
  // Whose memory it is: that of one context.
  const Heap& heap() const { return *block().heap; }
  std::uint64_t version() const { return block().version; }
  void advance_version() const { ++block().version; }
  // Whether this handle is the only one: its bytes may then be used for something else.
  bool unique() const { return block().references.load(std::memory_order_acquire) == 1; }
  friend bool operator==(const Storage& a, const Storage& b) { return a.block_ == b.block_; }

 private:
  explicit Storage(detail::StorageBlock* block) : block_(block) {}
  detail::StorageBlock& block() const {
    if (block_ == nullptr) refuse();
    return *block_;
  }
  [[noreturn]] static void refuse() {
    fail(error_id::tensor_undefined, "Tensor", "tensor", "no tensor", "one with elements");
  }
  detail::StorageBlock* block_ = nullptr;
};

}  // namespace soma
