#pragma once
// A processor's own memory: the pool of local memory (TCM), and the queue of printed text.

#include <soma/runtime/log.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace soma::neuroncore {

// A block of the pool. Each block has memory of its own, so that memory checkers see accesses
// beyond it.
class LocalBlock {
 public:
  static constexpr std::size_t alignment = 64;  // the size of a vector register
  explicit LocalBlock(std::size_t bytes)
      : data_(static_cast<std::byte*>(
            ::operator new((std::max)(bytes, std::size_t{1}), std::align_val_t(alignment)))),
        bytes_(bytes) {
    std::memset(data_, 0xFF, bytes);  // not a number, in every floating type
  }
  LocalBlock(LocalBlock&& other) noexcept
      : freed(other.freed), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  LocalBlock& operator=(LocalBlock&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(freed, other.freed);
    return *this;
  }
  ~LocalBlock() {
    if (data_ != nullptr) ::operator delete(data_, std::align_val_t(alignment));
  }
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  bool holds(const void* pointer) const {
    const auto at = reinterpret_cast<std::uintptr_t>(pointer);
    const auto begin = reinterpret_cast<std::uintptr_t>(data_);
    return at >= begin && at < begin + (std::max)(bytes_, std::size_t{1});
  }

  bool freed = false;

 private:
  std::byte* data_;
  std::size_t bytes_;
};

class LocalMemory {
 public:
  explicit LocalMemory(std::size_t bytes) : bytes_(bytes) {}

  // Reserves room without memory, for a stream. Returns false if there is not enough.
  bool take(std::size_t bytes) {
    if (bytes > bytes_ - used_) return false;
    used_ += bytes;
    return true;
  }
  void give(std::size_t bytes) { used_ -= bytes; }

  // Returns nullptr if the pool is exhausted.
  void* allocate(std::size_t bytes) {
    if (!take(bytes)) return nullptr;
    blocks_.emplace_back(bytes);
    return blocks_.back().data();
  }
  // Frees a pointer. Returns its problem; empty if there is none.
  std::string free(void* pointer) {
    if (pointer == nullptr) return {};
    for (LocalBlock& block : blocks_) {
      if (block.data() != pointer) continue;
      if (block.freed) return "tcm_free of a pointer that was freed before";
      block.freed = true;
      give(block.bytes());
      keep_few_freed();
      return {};
    }
    return "tcm_free of a pointer that tcm_malloc did not return";
  }
  // The same for bytes to copy.
  std::string problem_of(const void* local, std::size_t bytes) const {
    for (const LocalBlock& block : blocks_) {
      if (!block.holds(local)) continue;
      if (block.freed) return "a block that was freed";
      const auto offset =
          static_cast<std::size_t>(static_cast<const std::byte*>(local) - block.data());
      if (offset <= block.bytes() && bytes <= block.bytes() - offset) return {};
      return "bytes " + std::to_string(offset) + " to " + std::to_string(offset + bytes - 1) +
             " of a block of " + std::to_string(block.bytes());
    }
    return "a pointer that tcm_malloc did not return";
  }
  // "2 blocks with 4096 bytes"; empty: none.
  std::string left() const {
    std::size_t count = 0, bytes = 0;
    for (const LocalBlock& block : blocks_)
      if (!block.freed) ++count, bytes += block.bytes();
    if (count == 0) return {};
    return std::to_string(count) + (count == 1 ? " block with " : " blocks with ") +
           std::to_string(bytes) + " bytes";
  }

 private:
  // Freed blocks are remembered to detect double frees; in a long run only some of them.
  void keep_few_freed() {
    constexpr std::size_t most = 64;
    if (blocks_.size() < most) return;
    blocks_.erase(std::find_if(blocks_.begin(), blocks_.end(),
                               [](const LocalBlock& block) { return block.freed; }));
  }
  std::size_t bytes_, used_ = 0;
  std::vector<LocalBlock> blocks_{};
};

// Keeps the newest `most` bytes.
class PrintQueue {
 public:
  void append(std::string_view text, std::size_t most) {
    text_.append(text);
    if (text_.size() > 2 * most) cut(most);  // so that a long run does not grow
  }
  // write(level, line) for each.
  template <class Write>
  void lines(std::size_t most, const Write& write) {
    if (text_.size() > most) cut(most);
    if (overwritten_ != 0)
      write(LogLevel::warning,
            "printf: " + std::to_string(overwritten_) + " bytes were overwritten by later ones");
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = (std::min)(text_.find('\n', at), text_.size());
      write(LogLevel::info, text_.substr(at, end - at));
      at = end + 1;
    }
  }

 private:
  void cut(std::size_t most) {
    overwritten_ += text_.size() - most;
    text_.erase(0, text_.size() - most);
  }
  std::string text_{};
  std::size_t overwritten_ = 0;
};

}  // namespace soma::neuroncore
