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

// Calls that were recorded and have not run yet: those of a device that is lazy. Storages that they
// write, or read, know of them.
class PendingCalls {
 public:
  // Runs them: somebody needs what they write to a storage (Storage::identity()), or is about to
  // write what they read.
  virtual void run_pending(std::uintptr_t storage) = 0;

 protected:
  ~PendingCalls() = default;
};

namespace detail {

struct alignas(memory_alignment) StorageBlock {
  std::atomic<std::size_t> references{1};
  Heap* heap;
  std::byte* data;
  std::size_t bytes;
  std::uint64_t version = 0;
  Owner owner;  // of adopted data
  bool writable = true;
  bool pending_write = false;  // one of the pending calls writes it; otherwise they only read
  std::uint32_t pending_handles = 0;  // of the references, those that pending calls hold
  PendingCalls* pending = nullptr;    // nullptr: nobody waits for it
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
  // Of whoever runs a recorded call: its write was counted when it was recorded.
  void set_version(std::uint64_t version) const { block().version = version; }
  // Before its bytes are read, and before they are written: pending calls that must come first run.
  // Nothing where there are none.
  void before_read() const {
    if (block_ != nullptr && block_->pending_write) block_->pending->run_pending(identity());
  }
  void before_write() const {
    if (block_ != nullptr && block_->pending != nullptr) block_->pending->run_pending(identity());
  }
  // Of whoever records calls: they write it (or only read it) from now on, and hold one more
  // handle; nullptr: they have run.
  void set_pending(PendingCalls* calls, bool write) const {
    block().pending = calls;
    block().pending_handles = calls == nullptr ? 0 : block().pending_handles + 1;
    block().pending_write = calls != nullptr && (write || block().pending_write);
  }
  const PendingCalls* pending() const { return block_ == nullptr ? nullptr : block_->pending; }
  // Equal for handles of one storage and for no others.
  std::uintptr_t identity() const { return reinterpret_cast<std::uintptr_t>(block_); }
  // How many handles share it.
  std::size_t handles() const { return block().references.load(std::memory_order_acquire); }
  // Whether this handle is the only one: its bytes may then be used for something else. Pending
  // calls do not count: what is recorded behind them comes behind them.
  bool unique() const {
    return block().references.load(std::memory_order_acquire) == 1 + block().pending_handles;
  }
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
