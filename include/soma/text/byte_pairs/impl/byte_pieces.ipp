#pragma once
// The functions of byte_pieces.hpp.

#include <soma/text/byte_pairs/byte_pieces.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::text {

SOMA_INLINE BytePieces::BytePieces(const std::vector<std::string>& pieces) {
  slots_.resize(std::bit_ceil(2 * pieces.size() + 2));
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    pool_ += pieces[id];
    ends_.push_back(pool_.size());
  }
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].empty()) continue;
    const std::uint64_t code = hash(pieces[id]);
    slots_[slot_of(pieces[id], code)] = {static_cast<std::uint32_t>(code >> 32),
                                         static_cast<std::int32_t>(id)};
  }
}

SOMA_INLINE std::size_t BytePieces::size() const { return ends_.size() - 1; }

SOMA_INLINE std::string_view BytePieces::piece(std::int32_t id) const {
  const auto i = static_cast<std::size_t>(id);
  return std::string_view(pool_).substr(ends_[i], ends_[i + 1] - ends_[i]);
}

SOMA_INLINE std::int32_t BytePieces::find(std::string_view bytes) const {
  return slots_[slot_of(bytes, hash(bytes))].id;
}

SOMA_INLINE std::uint64_t BytePieces::hash(std::string_view bytes) {
  std::uint64_t state = bytes.size() * 0x9E3779B97F4A7C15u;
  const auto mix = [&](std::uint64_t word) {
    state = (state ^ word) * 0xD6E8FEB86659FD93u;
    state ^= state >> 32;
  };
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    mix(word);
  }
  std::uint64_t rest = 0;
  for (unsigned shift = 0; at < bytes.size(); ++at, shift += 8)
    rest |= std::uint64_t{static_cast<unsigned char>(bytes[at])} << shift;
  mix(rest);
  return state;
}

// The piece's slot, or the empty one that ends its search.
SOMA_INLINE std::size_t BytePieces::slot_of(std::string_view bytes, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  const auto mark = static_cast<std::uint32_t>(hash >> 32);
  std::size_t slot = static_cast<std::size_t>(hash) & mask;
  while (slots_[slot].id != absent &&
         (slots_[slot].mark != mark || piece(slots_[slot].id) != bytes))
    slot = (slot + 1) & mask;
  return slot;
}

}  // namespace SOMA_NAMESPACE::text
