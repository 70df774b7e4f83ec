// Philox 4x32-10 in vector lanes: several blocks at a time, each 32-bit word in the low half of a
// 64-bit lane, because the 32 x 32 -> 64 multiplication reads it there and the upper half never
// matters. A tenth of the cost of the rounds is spent on putting words back side by side.

#if defined(SOMA_SIMD_PHILOX_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_SIMD_PHILOX_INL_HPP
#undef SOMA_SIMD_PHILOX_INL_HPP
#else
#define SOMA_SIMD_PHILOX_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/simd/memory-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Product of the low 32 bits of each lane with a constant.
template <class D64, class V64 = hn::Vec<D64>>
HWY_INLINE V64 multiply_low_words(D64 d, V64 a, std::uint32_t b) {
  (void)d;  // a type is all that Highway needs of it
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(d, (hn::GetLane(a) & 0xFFFFFFFFu) * b);
#else
  const hn::Repartition<std::uint32_t, D64> d32;
  return hn::MulEven(hn::BitCast(d32, a), hn::Set(d32, b));
#endif
}

// Words beyond the last block that may be written: one vector's worth of blocks, at most 8 (512-bit
// vectors).
inline constexpr std::size_t philox_padding = 4 * 8;

// Writes the words of blocks first, first + 1, ... of the stream, and up to philox_padding words
// more.

HWY_NOINLINE HWY_MAYBE_UNUSED static void philox_words(const Draw& draw, std::uint64_t first,
                                                       std::size_t blocks,
                                                       std::uint32_t* HWY_RESTRICT out) {
  const hn::CappedTag<std::uint64_t, 8> d;
  using V64 = hn::Vec<decltype(d)>;
  const std::size_t lanes = hn::Lanes(d);
  const V64 low_mask = hn::Set(d, 0xFFFFFFFFu);
  for (std::size_t block = 0; block < blocks; block += lanes) {
    const V64 number = hn::Add(hn::Set(d, first + block), hn::Iota(d, std::uint64_t{0}));
    V64 c0 = number, c1 = hn::ShiftRight<32>(number);
    V64 c2 = hn::Set(d, draw.stream), c3 = hn::Set(d, draw.step);
    PhiloxKey key = philox_key(draw);
    for (int round = 0; round < philox::rounds; ++round) {
      const V64 product_0 = multiply_low_words(d, c0, philox::multiplier_0);
      const V64 product_1 = multiply_low_words(d, c2, philox::multiplier_1);
      c0 = hn::Xor(hn::ShiftRight<32>(product_1), hn::Xor(c1, hn::Set(d, key[0])));
      c2 = hn::Xor(hn::ShiftRight<32>(product_0), hn::Xor(c3, hn::Set(d, key[1])));
      c1 = product_1;
      c3 = product_0;
      key[0] += philox::weyl_0;
      key[1] += philox::weyl_1;
    }
    const V64 words_01 = hn::Or(hn::And(c0, low_mask), hn::ShiftLeft<32>(c1));
    const V64 words_23 = hn::Or(hn::And(c2, low_mask), hn::ShiftLeft<32>(c3));
// Little-endian: the low half of a lane is the first word in memory.
#if HWY_TARGET == HWY_SCALAR
    store_bytes(d, words_01, out + 4 * block);
    store_bytes(d, words_23, out + 4 * block + 2);
#else
    hn::StoreInterleaved2(words_01, words_23, d, reinterpret_cast<std::uint64_t*>(out + 4 * block));
#endif
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
