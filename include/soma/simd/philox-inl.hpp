// Philox 4x32-10 in vector lanes, several blocks at a time. Each 32-bit word is in the low half of
// a 64-bit lane, because the 32 x 32 -> 64 multiplication reads it there and ignores the upper
// half. Putting words back side by side takes a tenth of the time of the rounds.

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
namespace SOMA_NAMESPACE {
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

// Moves the upper half of each lane's product to the lower half; the upper half of the result is
// never read. It is a shuffle, because shifts use the same unit as multiplications (1.05 times the
// rate on an Intel CPU).
template <class D64, class V64 = hn::Vec<D64>>
HWY_INLINE V64 upper_word(D64 d, V64 product) {
#if HWY_TARGET == HWY_SCALAR
  (void)d;
  return hn::ShiftRight<32>(product);
#else
  const hn::Repartition<std::uint32_t, D64> d32;
  return hn::BitCast(d, hn::Shuffle2301(hn::BitCast(d32, product)));
#endif
}

// The vectors of blocks that are computed side by side: a round waits for its products, and all
// vectors have the same keys.
inline constexpr std::size_t philox_vectors = 2;
// The words that may be written after the last block: philox_vectors vectors of at most 8 blocks.
inline constexpr std::size_t philox_padding = philox_vectors * 4 * 8;

// Blocks between rounds: a word is in the low half of a lane.
template <class V64>
struct PhiloxLanes {
  V64 c0, c1, c2, c3;
};

template <class D64, class V64 = hn::Vec<D64>>
HWY_INLINE void philox_round(D64 d, V64 key_0, V64 key_1, PhiloxLanes<V64>& at) {
  const V64 product_0 = multiply_low_words(d, at.c0, philox::multiplier_0);
  const V64 product_1 = multiply_low_words(d, at.c2, philox::multiplier_1);
  at.c0 = hn::Xor(upper_word(d, product_1), hn::Xor(at.c1, key_0));
  at.c2 = hn::Xor(upper_word(d, product_0), hn::Xor(at.c3, key_1));
  at.c1 = product_1;
  at.c3 = product_0;
}

template <class D64, class V64 = hn::Vec<D64>>
HWY_INLINE void store_blocks(D64 d, const PhiloxLanes<V64>& at, std::uint32_t* out) {
  const V64 low_mask = hn::Set(d, 0xFFFFFFFFu);
  const V64 words_01 = hn::Or(hn::And(at.c0, low_mask), hn::ShiftLeft<32>(at.c1));
  const V64 words_23 = hn::Or(hn::And(at.c2, low_mask), hn::ShiftLeft<32>(at.c3));
// Little-endian: the low half of a lane is the first word in memory.
#if HWY_TARGET == HWY_SCALAR
  store_bytes(d, words_01, out);
  store_bytes(d, words_23, out + 2);
#else
  hn::StoreInterleaved2(words_01, words_23, d, reinterpret_cast<std::uint64_t*>(out));
#endif
}

// All rounds for two vectors of blocks.
template <class D64, class V64 = hn::Vec<D64>>
HWY_INLINE void philox_rounds(D64 d, const Draw& draw, PhiloxLanes<V64>& even,
                              PhiloxLanes<V64>& odd) {
  PhiloxKey key = philox_key(draw);
  for (int round = 0; round < philox::rounds; ++round) {
    const V64 key_0 = hn::Set(d, key[0]), key_1 = hn::Set(d, key[1]);
    philox_round(d, key_0, key_1, even);
    philox_round(d, key_0, key_1, odd);
    key[0] += philox::weyl_0;
    key[1] += philox::weyl_1;
  }
}

// The blocks with these numbers, before the first round.
template <class D64, class V64 = hn::Vec<D64>>
HWY_INLINE PhiloxLanes<V64> philox_start(D64 d, const Draw& draw, V64 number) {
  return {number, hn::ShiftRight<32>(number), hn::Set(d, draw.stream), hn::Set(d, draw.step)};
}

// Writes the words of blocks first, first + 1, ... of the stream, and up to philox_padding words
// more.
HWY_NOINLINE HWY_MAYBE_UNUSED static void philox_words(const Draw& draw, std::uint64_t first,
                                                       std::size_t blocks,
                                                       std::uint32_t* HWY_RESTRICT out) {
  const hn::CappedTag<std::uint64_t, 8> d;
  using V64 = hn::Vec<decltype(d)>;
  const std::size_t lanes = hn::Lanes(d);
  const V64 lane = hn::Iota(d, std::uint64_t{0});
  for (std::size_t block = 0; block < blocks; block += philox_vectors * lanes) {
    const V64 number = hn::Add(hn::Set(d, first + block), lane);
    PhiloxLanes<V64> even = philox_start(d, draw, number);
    PhiloxLanes<V64> odd = philox_start(d, draw, hn::Add(number, hn::Set(d, lanes)));
    philox_rounds(d, draw, even, odd);
    store_blocks(d, even, out + 4 * block);
    store_blocks(d, odd, out + 4 * (block + lanes));
  }
}

// They begin at the returned address, up to 3 words into `words`, which has room for 6 and
// philox_padding more.
static inline const std::uint32_t* philox_run(const Draw& draw, std::uint64_t index,
                                              std::size_t count, std::uint32_t* words) {
  const auto lead = static_cast<std::size_t>(index % 4);
  philox_words(draw, index / 4, (lead + count + 3) / 4, words);
  return words + lead;
}

// Moves the words of all lanes side by side.
template <class D64, class V64 = hn::Vec<D64>>
HWY_INLINE void store_low_words(D64 d, V64 even, V64 odd, std::uint32_t* out) {
  (void)d;  // a type is all that Highway needs of it
#if HWY_TARGET == HWY_SCALAR
  out[0] = static_cast<std::uint32_t>(hn::GetLane(even));
  out[1] = static_cast<std::uint32_t>(hn::GetLane(odd));
#else
  const hn::Repartition<std::uint32_t, D64> d32;
  hn::Store(hn::ConcatEven(d32, hn::BitCast(d32, odd), hn::BitCast(d32, even)), d32, out);
#endif
}

// The same runs for several columns, interleaved: the run of column c begins at index + c *
// distance; the distance is a multiple of 4. Word i of column c is at [i * stride + c] of the
// returned address; up to 3 further rows before and after it are written, too. Columns are rounded
// up to a vector of words.
HWY_NOINLINE HWY_MAYBE_UNUSED static const std::uint32_t* philox_columns(
    const Draw& draw, std::uint64_t index, std::uint64_t distance, std::size_t columns,
    std::size_t count, std::size_t stride, std::uint32_t* HWY_RESTRICT words) {
  const hn::CappedTag<std::uint64_t, 8> d;
  using V64 = hn::Vec<decltype(d)>;
  const std::size_t lanes = hn::Lanes(d);
  const auto lead = static_cast<std::size_t>(index % 4);
  const auto block_numbers = [&](std::size_t column) HWY_ATTR {
    alignas(64) std::uint64_t numbers[8];
    for (std::size_t i = 0; i < lanes; ++i) numbers[i] = (index + (column + i) * distance) / 4;
    return hn::Load(d, numbers);
  };
  for (std::size_t column = 0; column < columns; column += 2 * lanes) {
    V64 number_even = block_numbers(column), number_odd = block_numbers(column + lanes);
    for (std::size_t word = 0; word < lead + count; word += 4) {
      PhiloxLanes<V64> even = philox_start(d, draw, number_even);
      PhiloxLanes<V64> odd = philox_start(d, draw, number_odd);
      philox_rounds(d, draw, even, odd);
      std::uint32_t* const out = words + word * stride + column;
      store_low_words(d, even.c0, odd.c0, out);
      store_low_words(d, even.c1, odd.c1, out + stride);
      store_low_words(d, even.c2, odd.c2, out + 2 * stride);
      store_low_words(d, even.c3, odd.c3, out + 3 * stride);
      number_even = hn::Add(number_even, hn::Set(d, std::uint64_t{1}));
      number_odd = hn::Add(number_odd, hn::Set(d, std::uint64_t{1}));
    }
  }
  return words + lead * stride;
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
