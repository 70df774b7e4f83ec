#pragma once
// The functions of content_hash.hpp.

#include <soma/data/content_hash.hpp>

#include <soma/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace SOMA_NAMESPACE::data {

SOMA_INLINE void ContentHash::add_bytes(std::span<const std::byte> bytes) {
  for (; !bytes.empty() && filled_ != 0; bytes = bytes.subspan(1)) add_byte(bytes.front());
  for (; bytes.size() >= sizeof(std::uint64_t); bytes = bytes.subspan(sizeof(std::uint64_t))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    mix(word);
  }
  for (const std::byte byte : bytes) add_byte(byte);
}

SOMA_INLINE void ContentHash::add(std::uint64_t number) {
  add_bytes(std::as_bytes(std::span(&number, 1)));
}

SOMA_INLINE void ContentHash::add_text(std::string_view text) {
  add(text.size());
  add_bytes(std::as_bytes(std::span(text.data(), text.size())));
}

SOMA_INLINE std::uint64_t ContentHash::value() const {
  ContentHash finished = *this;
  finished.mix(partial_);
  finished.mix(filled_);
  return finished.state_;
}

SOMA_INLINE void ContentHash::mix(std::uint64_t word) {
  state_ = (state_ ^ word) * 0x9E3779B97F4A7C15u;  // 2^64 by the golden ratio: odd, bits mixed
  state_ ^= state_ >> 32;
}

SOMA_INLINE void ContentHash::add_byte(std::byte byte) {
  partial_ |= std::to_integer<std::uint64_t>(byte) << (8 * filled_);
  if (++filled_ < sizeof partial_) return;
  mix(partial_);
  partial_ = filled_ = 0;
}

}  // namespace SOMA_NAMESPACE::data
