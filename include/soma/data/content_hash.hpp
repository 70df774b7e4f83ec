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

}  // namespace SOMA_NAMESPACE::data

#ifndef SOMA_DISPATCH
#include <soma/data/impl/content_hash.ipp>
#endif
