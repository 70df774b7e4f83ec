#pragma once
// Arena: workspace that is used, given back and used again. Allocation moves a pointer; a Scope
// gives back all that was taken since it was opened. Once the largest need has been met, nothing is
// allocated any more.

#include <soma/base/contracts.hpp>
#include <soma/base/sizes.hpp>
#include <soma/runtime/memory.hpp>

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <span>
#include <type_traits>
#include <vector>

namespace soma {

// Not thread-safe: one arena for each thread or task that needs one.
class Arena {
 public:
  explicit Arena(std::pmr::memory_resource& memory) : memory_(&memory) {}
  ~Arena() { release_blocks(); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Scopes close in the reverse of the order they were opened in, as local variables do.
  class [[nodiscard]] Scope {
   public:
    explicit Scope(Arena& arena)
        : arena_(arena), depth_(++arena.depth_), block_(arena.current_), used_(arena.used()) {}
    ~Scope() { arena_.close(*this); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    friend class Arena;
    Arena& arena_;
    int depth_;
    std::size_t block_, used_;
  };
  Scope scope() { return Scope(*this); }

  // Uninitialised room for `count` objects, aligned to a cache line, until the innermost scope
  // closes. Errors base.size_overflow, memory.exhausted; the arena is then as before.
  template <class T>
  std::span<T> allocate(std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>,
                  "an arena runs no constructors and no destructors");
    static_assert(alignof(T) <= memory_alignment);
    if (count == 0) return {};
    const std::size_t bytes = checked_multiply(count, sizeof(T), "Arena::allocate");
    const std::size_t rounded = checked_add(bytes, memory_alignment - 1, "Arena::allocate") /
                                memory_alignment * memory_alignment;
    return {reinterpret_cast<T*>(take(rounded)), count};
  }

  // Makes sure that `bytes` can be taken without asking the memory resource. Only while nothing is
  // taken.
  void reserve(std::size_t bytes) {
    SOMA_EXPECTS(in_use_ == 0);
    const std::size_t needed = checked_add(bytes, memory_alignment - 1, "Arena::reserve") /
                               memory_alignment * memory_alignment;
    if (blocks_.size() == 1 && blocks_[0].size >= needed) return;
    release_blocks();
    add_block(needed);
  }

  std::size_t bytes_in_use() const { return in_use_; }
  std::size_t high_water() const { return high_water_; }  // the largest bytes_in_use so far
  std::size_t capacity() const {
    std::size_t total = 0;
    for (const Block& block : blocks_) total += block.size;
    return total;
  }

 private:
  struct Block {
    std::byte* data;
    std::size_t size, used;
  };
  static constexpr std::size_t smallest_block = std::size_t{64} << 10;

  std::size_t used() const { return blocks_.empty() ? 0 : blocks_[current_].used; }

  std::byte* take(std::size_t bytes) {
    // Several blocks mean that an earlier need outgrew the first: replace them by one that fits it
    // all.
    if (in_use_ == 0 && blocks_.size() > 1) {
      release_blocks();
      add_block((std::max)(high_water_, bytes));
    }
    while (!blocks_.empty() && blocks_[current_].size - blocks_[current_].used < bytes &&
           current_ + 1 < blocks_.size())
      blocks_[++current_].used = 0;
    if (blocks_.empty() || blocks_[current_].size - blocks_[current_].used < bytes) {
      add_block((std::max)({bytes, smallest_block, capacity()}));
      current_ = blocks_.size() - 1;
    }
    Block& block = blocks_[current_];
    std::byte* address = block.data + block.used;
    block.used += bytes;
    in_use_ += bytes;
    high_water_ = (std::max)(high_water_, in_use_);
    return address;
  }

  void add_block(std::size_t bytes) {
    blocks_.reserve(blocks_.size() + 1);
    blocks_.push_back(
        {static_cast<std::byte*>(memory_->allocate(bytes, memory_alignment)), bytes, 0});
  }

  void close(const Scope& scope) {
    SOMA_EXPECTS(scope.depth_ == depth_);
    --depth_;
    if (blocks_.empty()) return;
    for (std::size_t index = scope.block_ + 1; index <= current_; ++index) {
      in_use_ -= blocks_[index].used;
      blocks_[index].used = 0;
    }
    current_ = scope.block_;
    in_use_ -= blocks_[current_].used - scope.used_;
    blocks_[current_].used = scope.used_;
  }

  void release_blocks() {
    for (const Block& block : blocks_)
      memory_->deallocate(block.data, block.size, memory_alignment);
    blocks_.clear();
    current_ = 0;
  }

  std::pmr::memory_resource* memory_;
  std::vector<Block> blocks_;
  std::size_t current_ = 0;  // the block that is being filled; those after it are empty
  std::size_t in_use_ = 0, high_water_ = 0;
  int depth_ = 0;
};

}  // namespace soma
