#pragma once
// The functions of distinct_hashes.hpp.

#include <soma/text/distinct_hashes.hpp>

#include <soma/base/config.hpp>
#include <soma/numeric/portable_math.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::text::detail {

SOMA_INLINE void fetch_soon(const void* address) {
#if defined(__GNUC__)
  __builtin_prefetch(address);
#else
  static_cast<void>(address);
#endif
}

SOMA_INLINE bool is_unspaced(char32_t point) {
  const auto within = [&](char32_t low, char32_t high) { return point >= low && point <= high; };
  return point >= 0x0E00 &&
         (within(0x0E00, 0x0EFF) || within(0x1000, 0x109F) || within(0x1780, 0x17FF) ||
          within(0x3040, 0x30FF) || within(0x3400, 0x4DBF) || within(0x4E00, 0x9FFF) ||
          within(0xF900, 0xFAFF) || within(0x20000, 0x323AF));
}

SOMA_INLINE float damped(std::uint32_t count) {
  return count == 1 ? 1.0f : static_cast<float>(1 + portable_log(static_cast<double>(count)));
}

SOMA_INLINE void SmallCounter::begin(std::size_t most) {
  const std::size_t wanted = std::bit_ceil((std::max)(2 * most, std::size_t{16}));
  if (places_.size() < wanted) {
    places_.assign(wanted, Place{});
    stamp_ = 0;
  }
  ++stamp_;
  used_.clear();
}

SOMA_INLINE void SmallCounter::add(std::uint64_t key) {
  const std::size_t mask = places_.size() - 1;
  std::size_t at = (key * counted_golden >> 32) & mask;
  while (places_[at].stamp == stamp_ && places_[at].key != key) at = (at + 1) & mask;
  Place& place = places_[at];
  if (place.stamp != stamp_) {
    place = {key, stamp_, 0};
    used_.push_back(static_cast<std::uint32_t>(at));
  }
  ++place.count;
}

SOMA_INLINE DistinctHashes::DistinctHashes() : places_(std::size_t{1} << 12, -1) {}

SOMA_INLINE std::int32_t DistinctHashes::add(std::uint64_t hash, std::int32_t text, bool of_part) {
  std::size_t at = home(hash);
  const std::size_t mask = places_.size() - 1;
  while (places_[at] >= 0 && hashes[static_cast<std::size_t>(places_[at])] != hash)
    at = (at + 1) & mask;
  if (places_[at] >= 0) {
    count(places_[at], text);
    return places_[at];
  }
  const auto number = static_cast<std::int32_t>(hashes.size());
  places_[at] = number;
  hashes.push_back(hash);
  texts.push_back(0);
  last_.push_back(-1);
  parts.push_back(of_part ? 1 : 0);
  if (2 * hashes.size() > places_.size()) grow();
  count(number, text);
  return number;
}

SOMA_INLINE void DistinctHashes::fetch(std::uint64_t hash) const {
  fetch_soon(&places_[home(hash)]);
}

SOMA_INLINE std::size_t DistinctHashes::home(std::uint64_t hash) const {
  return hash >> (64 - static_cast<unsigned>(std::bit_width(places_.size()) - 1));
}

SOMA_INLINE void DistinctHashes::count(std::int32_t number, std::int32_t text) {
  const auto i = static_cast<std::size_t>(number);
  if (last_[i] != text) ++texts[i];
  last_[i] = text;
}

SOMA_INLINE void DistinctHashes::grow() {
  std::vector<std::int32_t> old(places_.size() * 4, -1);
  std::swap(old, places_);
  const std::size_t mask = places_.size() - 1;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    std::size_t at = home(hashes[i]);
    while (places_[at] >= 0) at = (at + 1) & mask;
    places_[at] = static_cast<std::int32_t>(i);
  }
}

}  // namespace SOMA_NAMESPACE::text::detail
