#pragma once
// The hashes of counted features, and two tables that count them: within a text, and over all texts
// of a training set.

#include <soma/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace SOMA_NAMESPACE::text::detail {

inline constexpr std::uint64_t counted_start = 0x243F6A8885A308D3u;   // bits of pi's fraction
inline constexpr std::uint64_t counted_prime = 0x100000001B3u;        // the prime of FNV-1a
inline constexpr std::uint64_t counted_golden = 0x9E3779B97F4A7C15u;  // 2^64 by the golden ratio

// Three shifts and two products with an odd number of mixed bits: a bijection.
constexpr std::uint64_t mixed_hash(std::uint64_t x) {
  x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
  x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
  return x ^ x >> 32;
}

// Brings memory that is needed soon into the cache.
void fetch_soon(const void* address);

// True for scripts that write no spaces between words.
bool is_unspaced(char32_t point);

// 1 + ln(count).
float damped(std::uint32_t count);

// How often each of some hashes or rows stands in one text: few keys, counted again and again.
class SmallCounter {
 public:
  // Forgets all keys. At most `most` will be added.
  void begin(std::size_t most);
  void add(std::uint64_t key);
  // function(key, count) for each key in the order of its first occurrence.
  template <class Function>
  void for_each(const Function& function) const {
    for (const std::uint32_t at : used_) function(places_[at].key, places_[at].count);
  }

 private:
  struct Place {
    std::uint64_t key = 0;
    std::uint32_t stamp = 0, count = 0;
  };
  std::vector<Place> places_{};
  std::vector<std::uint32_t> used_{};
  std::uint32_t stamp_ = 0;
};

// The distinct hashes of a training set, numbered as they come, with the texts that have each.
class DistinctHashes {
 public:
  DistinctHashes();

  // The number of a hash of a text. Texts come in order.
  std::int32_t add(std::uint64_t hash, std::int32_t text, bool of_part);
  void fetch(std::uint64_t hash) const;

  std::vector<std::uint64_t> hashes{};
  std::vector<std::uint32_t> texts{};
  std::vector<std::uint8_t> parts{};

 private:
  std::size_t home(std::uint64_t hash) const;
  void count(std::int32_t number, std::int32_t text);
  void grow();

  std::vector<std::int32_t> last_{};
  std::vector<std::int32_t> places_;
};

}  // namespace SOMA_NAMESPACE::text::detail

#ifndef SOMA_DISPATCH
#include <soma/text/impl/distinct_hashes.ipp>
#endif
