#pragma once
// The functions of local_memory.hpp.

#include <soma/neuroncore/processors/local_memory.hpp>

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

namespace SOMA_NAMESPACE::neuroncore::detail {

// A part of no common number, so that a stray write shows.
inline constexpr unsigned char guard_byte = 0xA7;

}  // namespace SOMA_NAMESPACE::neuroncore::detail

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE LocalBlock::LocalBlock(std::size_t bytes)
    : data_(static_cast<std::byte*>(
                ::operator new(guard + bytes + guard, std::align_val_t(alignment))) +
            guard),
      bytes_(bytes) {
  std::memset(data_ - guard, detail::guard_byte, guard + bytes + guard);
  std::memset(data_, 0xFF, bytes);  // not a number, in every floating type
}

SOMA_INLINE LocalBlock& LocalBlock::operator=(LocalBlock&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(freed, other.freed);
  return *this;
}

SOMA_INLINE LocalBlock::~LocalBlock() {
  if (data_ != nullptr) ::operator delete(data_ - guard, std::align_val_t(alignment));
}

SOMA_INLINE bool LocalBlock::holds(const void* pointer) const {
  const auto at = reinterpret_cast<std::uintptr_t>(pointer);
  const auto begin = reinterpret_cast<std::uintptr_t>(data_);
  return at >= begin && at < begin + (std::max)(bytes_, std::size_t{1});
}

SOMA_INLINE std::string LocalBlock::overrun() const {
  const auto text = [this](std::size_t byte, std::string_view side) {
    return "byte " + std::to_string(byte) + " " + std::string(side) + " a block of " +
           std::to_string(bytes_) + " bytes" + (freed ? " that was freed" : "");
  };
  for (std::size_t i = 0; i < guard; ++i) {
    if (data_[bytes_ + i] != std::byte{detail::guard_byte}) return text(i, "behind");
    if (*(data_ - 1 - i) != std::byte{detail::guard_byte}) return text(i, "before");
  }
  return {};
}

SOMA_INLINE bool LocalMemory::take(std::size_t bytes) {
  if (bytes > bytes_ - used_) return false;
  used_ += bytes;
  return true;
}

SOMA_INLINE void* LocalMemory::allocate(std::size_t bytes) {
  if (!take(bytes)) return nullptr;
  blocks_.emplace_back(bytes);
  return blocks_.back().data();
}

SOMA_INLINE std::string LocalMemory::free(void* pointer) {
  if (pointer == nullptr) return {};
  for (LocalBlock& block : blocks_) {
    if (block.data() != pointer) continue;
    if (block.freed) return "tcm_free of a pointer that was freed before";
    if (const std::string over = block.overrun(); !over.empty()) return over + ", written";
    block.freed = true;
    give(block.bytes());
    keep_few_freed();
    return {};
  }
  return "tcm_free of a pointer that tcm_malloc did not return";
}

SOMA_INLINE std::string LocalMemory::problem_of(const void* local, std::size_t bytes) const {
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

SOMA_INLINE std::string LocalMemory::overrun() const {
  for (const LocalBlock& block : blocks_)
    if (std::string over = block.overrun(); !over.empty()) return over;
  return {};
}

SOMA_INLINE std::string LocalMemory::left() const {
  std::size_t count = 0, bytes = 0;
  for (const LocalBlock& block : blocks_)
    if (!block.freed) ++count, bytes += block.bytes();
  if (count == 0) return {};
  return std::to_string(count) + (count == 1 ? " block with " : " blocks with ") +
         std::to_string(bytes) + " bytes";
}

SOMA_INLINE void LocalMemory::keep_few_freed() {
  constexpr std::size_t most = 64;
  if (blocks_.size() < most) return;
  blocks_.erase(std::find_if(blocks_.begin(), blocks_.end(),
                             [](const LocalBlock& block) { return block.freed; }));
}

SOMA_INLINE void PrintQueue::append(std::string_view text, std::size_t most) {
  text_.append(text);
  if (text_.size() > 2 * most) cut(most);  // so that a long run does not grow
}

SOMA_INLINE void PrintQueue::cut(std::size_t most) {
  overwritten_ += text_.size() - most;
  text_.erase(0, text_.size() - most);
}

}  // namespace SOMA_NAMESPACE::neuroncore
