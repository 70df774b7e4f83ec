#pragma once
// Storage: reference-counted bytes that tensors share. Every write advances the storage's version;
// autograd compares versions to notice a change to a value that it keeps.

#include <soma/base/sizes.hpp>
#include <soma/runtime/heap.hpp>
#include <soma/tensor/owner.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace SOMA_NAMESPACE {

// Recorded calls of a lazy device that have not run yet. Every storage that they read or write
// points to them.
class PendingCalls {
 public:
  // Runs the calls. Called before another user reads a storage (Storage::identity()) that the calls
  // write, or writes a storage that the calls read.
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
  std::uint64_t id;
  std::uint64_t version = 0;
  Owner owner;  // for adopted data; empty otherwise
  bool writable = true;
  bool pending_write = false;         // true: a pending call writes; false: they only read
  std::uint32_t pending_handles = 0;  // the references that pending calls hold
  PendingCalls* pending = nullptr;    // nullptr: no call is pending
};

}  // namespace detail

// Handle of a storage; empty by default. Reference counting is thread-safe; access to the bytes is
// not.
class Storage {
 public:
  Storage() = default;

  // Uninitialised bytes, aligned to memory_alignment. Errors base.size_overflow, memory.exhausted.
  static Storage allocate(Heap& heap, std::size_t bytes);
  // Bytes of another owner, which stay valid as long as `owner` is held.
  static Storage adopt(Heap& heap, std::byte* data, std::size_t bytes, Owner owner, bool writable);

  Storage(const Storage& other);
  Storage(Storage&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  Storage& operator=(Storage other) noexcept;
  ~Storage();

  explicit operator bool() const { return block_ != nullptr; }
  // Non-empty storages only. Error tensor.undefined.
  std::byte* data() const;
  std::size_t bytes() const;
  bool writable() const;
  // The heap that the bytes belong to; each context has one heap.
  const Heap& heap() const;
  std::uint64_t version() const;
  void advance_version() const;
  // Called by the runner of recorded calls: recording has already counted their writes.
  void set_version(std::uint64_t version) const;
  // Called before the bytes are read or written: runs the pending calls that must come first. Does
  // nothing if no call is pending.
  void before_read() const;
  void before_write() const;
  // Called by the recorder of calls: from now on `calls` write the storage (or only read it), and
  // hold one more handle; nullptr: they have run.
  void set_pending(PendingCalls* calls, bool write) const;
  // Equal for handles of the same storage, different for all others that live. A storage that
  // begins after this one has ended may have the same.
  std::uintptr_t identity() const;
  // A number that the heap gives to one storage only, ever.
  std::uint64_t id() const;
  // The number of handles that share the storage.
  std::size_t handles() const;
  // True if this is the only handle, so that the bytes may be reused. Handles of pending calls do
  // not count, because new calls run after them.
  bool unique() const;
  friend bool operator==(const Storage& a, const Storage& b) { return a.block_ == b.block_; }

 private:
  explicit Storage(detail::StorageBlock* block) : block_(block) {}
  detail::StorageBlock& block() const;
  [[noreturn]] static void refuse();
  detail::StorageBlock* block_ = nullptr;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/tensor/impl/storage.ipp>
#endif
