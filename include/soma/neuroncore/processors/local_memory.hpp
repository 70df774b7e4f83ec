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

namespace SOMA_NAMESPACE::neuroncore {

// A block of the pool. Each block has memory of its own, with guard bytes before and behind it that
// show what was written there.
class LocalBlock {
 public:
  static constexpr std::size_t alignment = 64;  // the size of a vector register
  static constexpr std::size_t guard = 256;     // bytes on each side, a multiple of the alignment
  explicit LocalBlock(std::size_t bytes);
  LocalBlock(LocalBlock&& other) noexcept
      : freed(other.freed), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  LocalBlock& operator=(LocalBlock&& other) noexcept;
  ~LocalBlock();
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  bool holds(const void* pointer) const;
  // "byte 3 behind a block of 64 bytes": a guard byte that was written; empty: none.
  std::string overrun() const;

  bool freed = false;

 private:
  std::byte* data_;
  std::size_t bytes_;
};

class LocalMemory {
 public:
  explicit LocalMemory(std::size_t bytes) : bytes_(bytes) {}

  // Reserves room without memory, for a stream. Returns false if there is not enough.
  bool take(std::size_t bytes);
  void give(std::size_t bytes) { used_ -= bytes; }

  // Returns nullptr if the pool is exhausted.
  void* allocate(std::size_t bytes);
  // Frees a pointer. Returns its problem; empty if there is none.
  std::string free(void* pointer);
  // The same for bytes to copy.
  std::string problem_of(const void* local, std::size_t bytes) const;
  // The first block with bytes written beside it, as LocalBlock::overrun() names it; freed blocks
  // are looked at, too.
  std::string overrun() const;
  std::size_t unused() const { return bytes_ - used_; }
  // "2 blocks with 4096 bytes"; empty: none.
  std::string left() const;

 private:
  // Freed blocks are remembered to detect double frees; in a long run only some of them.
  void keep_few_freed();
  std::size_t bytes_, used_ = 0;
  std::vector<LocalBlock> blocks_{};
};

// Keeps the newest `most` bytes.
class PrintQueue {
 public:
  void append(std::string_view text, std::size_t most);
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
  void cut(std::size_t most);
  std::string text_{};
  std::size_t overwritten_ = 0;
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/processors/impl/local_memory.ipp>
#endif
