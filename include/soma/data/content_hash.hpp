#pragma once
// ContentHash: a stable 64-bit hash of a batch source's data, so that a run is not resumed with
// other data by mistake. It does not protect against deliberate deception.

#include <soma/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace SOMA_NAMESPACE::data {

// Little-endian words of 64 bits, each mixed in by one multiplication and one shift. The mapping is
// frozen (a test holds known answers). About 2 ns a word.
class ContentHash {
 public:
  // The number of bytes is not hashed: add it if several byte strings of different lengths follow
  // each other.
  void add_bytes(std::span<const std::byte> bytes);
  void add(std::uint64_t number);
  void add_text(std::string_view text);
  // Adds the length, then the elements' bytes.
  template <class T>
  void add_list(std::span<const T> values) {
    add(values.size());
    add_bytes(std::as_bytes(values));
  }

  // The hash of everything added so far.
  std::uint64_t value() const;

 private:
  void mix(std::uint64_t word);
  void add_byte(std::byte byte);

  std::uint64_t state_ = 0x243F6A8885A308D3u;  // the first bits of pi's fraction
  std::uint64_t partial_ = 0, filled_ = 0;     // bytes that make no word yet
};

// These stay in the header, because loops over the words and letters of texts call them.

inline void ContentHash::add_bytes(std::span<const std::byte> bytes) {
  for (; !bytes.empty() && filled_ != 0; bytes = bytes.subspan(1)) add_byte(bytes.front());
  for (; bytes.size() >= sizeof(std::uint64_t); bytes = bytes.subspan(sizeof(std::uint64_t))) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    mix(word);
  }
  for (const std::byte byte : bytes) add_byte(byte);
}

inline void ContentHash::add(std::uint64_t number) {
  add_bytes(std::as_bytes(std::span(&number, 1)));
}

inline void ContentHash::add_text(std::string_view text) {
  add(text.size());
  add_bytes(std::as_bytes(std::span(text.data(), text.size())));
}

inline std::uint64_t ContentHash::value() const {
  ContentHash finished = *this;
  finished.mix(partial_);
  finished.mix(filled_);
  return finished.state_;
}

inline void ContentHash::mix(std::uint64_t word) {
  state_ = (state_ ^ word) * 0x9E3779B97F4A7C15u;  // 2^64 by the golden ratio: odd, bits mixed
  state_ ^= state_ >> 32;
}

inline void ContentHash::add_byte(std::byte byte) {
  partial_ |= std::to_integer<std::uint64_t>(byte) << (8 * filled_);
  if (++filled_ < sizeof partial_) return;
  mix(partial_);
  partial_ = filled_ = 0;
}

}  // namespace SOMA_NAMESPACE::data
