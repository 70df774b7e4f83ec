// Codes of 4 and 6 bits, packed by their order, low bits first, and one to a byte.

#if defined(SOMA_KERNELS_QUANTIZE_CODE_BITS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_QUANTIZE_CODE_BITS_INL_HPP
#undef SOMA_KERNELS_QUANTIZE_CODE_BITS_INL_HPP
#else
#define SOMA_KERNELS_QUANTIZE_CODE_BITS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/simd/memory-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using BytePairs = hn::CappedTag<std::uint16_t, 16>;

inline constexpr bool little_endian = std::endian::native == std::endian::little;

// Eight codes at a time as one word, whose byte order is the machine's: the first code is the
// lowest byte.
static inline std::uint64_t ordered(std::uint64_t word) {
  if constexpr (!little_endian) {
    std::uint64_t turned = 0;
    for (int i = 0; i < 8; ++i) turned |= (word >> (8 * i) & 0xFF) << (56 - 8 * i);
    return turned;
  }
  return word;
}

static inline std::uint64_t join_sixes(std::uint64_t w) {
  w = ordered(w);
  w = (w & 0x003F003F003F003Fu) | (w >> 2 & 0x0FC00FC00FC00FC0u);
  w = (w & 0x00000FFF00000FFFu) | (w >> 4 & 0x00FFF00000FFF000u);
  w = (w & 0x0000000000FFFFFFu) | (w >> 8 & 0x0000FFFFFF000000u);
  return ordered(w);
}
static inline std::uint64_t part_sixes(std::uint64_t w) {
  w = ordered(w);
  w = (w & 0x0000000000FFFFFFu) | (w & 0x0000FFFFFF000000u) << 8;
  w = (w & 0x00000FFF00000FFFu) | (w & 0x00FFF00000FFF000u) << 4;
  w = (w & 0x003F003F003F003Fu) | (w & 0x0FC00FC00FC00FC0u) << 2;
  return ordered(w);
}

// The first six bytes of a word. Two loads: a word that is written in parts and read as a whole
// waits for memory.
static inline std::uint64_t six_bytes(const std::byte* from) {
  std::uint32_t first;
  std::uint16_t second;
  std::memcpy(&first, from, sizeof first);
  std::memcpy(&second, from + sizeof first, sizeof second);
  if constexpr (little_endian) return first | std::uint64_t{second} << 32;
  return std::uint64_t{first} << 32 | std::uint64_t{second} << 16;
}

HWY_NOINLINE HWY_MAYBE_UNUSED static void pack_sixes(const std::byte* codes, std::size_t count,
                                                     std::byte* to) {
  std::uint64_t w;
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    std::memcpy(&w, codes + i, 8);
    w = join_sixes(w);
    std::memcpy(to + i * 3 / 4, &w, 6);
  }
  if (const std::size_t rest = count - i; rest != 0) {
    w = 0;
    std::memcpy(&w, codes + i, rest);
    w = join_sixes(w);
    std::memcpy(to + i * 3 / 4, &w, (rest * 6 + 7) / 8);
  }
}

HWY_NOINLINE HWY_MAYBE_UNUSED static void unpack_sixes(const std::byte* from, std::size_t count,
                                                       std::byte* codes) {
  std::uint64_t w;
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    w = part_sixes(six_bytes(from + i * 3 / 4));
    std::memcpy(codes + i, &w, 8);
  }
  if (const std::size_t rest = count - i; rest != 0) {
    w = 0;
    std::memcpy(&w, from + i * 3 / 4, (rest * 6 + 7) / 8);
    w = part_sixes(w);
    std::memcpy(codes + i, &w, rest);
  }
}

HWY_NOINLINE HWY_MAYBE_UNUSED static void pack_fours(const std::byte* codes, std::size_t count,
                                                     std::byte* to) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const BytePairs d;
  const hn::RebindToSigned<BytePairs> di;
  const hn::Rebind<std::uint8_t, BytePairs> narrow;
  for (; little_endian && i + 2 * hn::Lanes(d) <= count; i += 2 * hn::Lanes(d)) {
    const auto pair = load_bytes(d, codes + i);
    const auto packed = hn::And(hn::Or(pair, hn::ShiftRight<4>(pair)), hn::Set(d, 0xFF));
    store_bytes(narrow, hn::DemoteTo(narrow, hn::BitCast(di, packed)), to + i / 2);
  }
#endif
  for (; i < count; i += 2) {
    const std::byte second = i + 1 < count ? codes[i + 1] : std::byte{};
    to[i / 2] = codes[i] | second << 4;
  }
}

HWY_NOINLINE HWY_MAYBE_UNUSED static void unpack_fours(const std::byte* from, std::size_t count,
                                                       std::byte* codes) {
  std::size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const BytePairs d;
  const hn::Rebind<std::uint8_t, BytePairs> narrow;
  for (; little_endian && i + 2 * hn::Lanes(d) <= count; i += 2 * hn::Lanes(d)) {
    const auto packed = hn::PromoteTo(d, load_bytes(narrow, from + i / 2));
    const auto pair = hn::And(hn::Or(packed, hn::ShiftLeft<4>(packed)), hn::Set(d, 0x0F0F));
    store_bytes(d, pair, codes + i);
  }
#endif
  for (; i < count; ++i) codes[i] = (i % 2 == 0 ? from[i / 2] : from[i / 2] >> 4) & std::byte{15};
}

// Packs codes of 4 or 6 bits, and unpacks them.
static inline void pack_codes(const std::byte* codes, std::size_t count, int bits, std::byte* to) {
  return bits == 4 ? pack_fours(codes, count, to) : pack_sixes(codes, count, to);
}
static inline void unpack_codes(const std::byte* from, std::size_t count, int bits,
                                std::byte* codes) {
  return bits == 4 ? unpack_fours(from, count, codes) : unpack_sixes(from, count, codes);
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
