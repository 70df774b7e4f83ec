// ARS 4x32-5 in vectors: a block in each 128 bits, a round in one instruction for all of them where
// the CPU has it (VAES), for one block (AES-NI, AArch64's), or by the tables of numeric/ars.hpp.
// The same bits each way.

#if defined(SOMA_SIMD_ARS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_SIMD_ARS_INL_HPP
#undef SOMA_SIMD_ARS_INL_HPP
#else
#define SOMA_SIMD_ARS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/simd/aes_instructions.hpp>
#include <soma/simd/memory-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

// 1 if code for the current target may contain AES instructions. Callers ask the CPU before use.
#undef SOMA_HAS_AES
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
#define SOMA_HAS_AES 0
#elif HWY_ARCH_X86_64 || defined(__ARM_FEATURE_AES)
#define SOMA_HAS_AES 1
#else
#define SOMA_HAS_AES 0
#endif

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Words beyond the last block that may be written: those of a vector of four blocks.
inline constexpr std::size_t ars_padding = 4 * 4;

#if SOMA_HAS_AES

using ArsLanes = hn::CappedTag<std::uint64_t, 8>;

// A round of each block of a vector; the last one has no MixColumns. Compilers' intrinsics would
// want a target of their own on every function that they are inlined into: on x86 the instructions
// themselves need neither.
template <bool kLast, class V>
HWY_INLINE V aes_round(V state, V key) {
#if !HWY_ARCH_X86_64
  using D8 = hn::Repartition<std::uint8_t, hn::DFromV<V>>;
  const auto bytes = hn::BitCast(D8(), state), key_bytes = hn::BitCast(D8(), key);
  return hn::BitCast(hn::DFromV<V>(),
                     kLast ? hn::AESLastRound(bytes, key_bytes) : hn::AESRound(bytes, key_bytes));
#elif HWY_TARGET > HWY_AVX2  // Highway numbers better targets lower
  if constexpr (kLast)
    asm("aesenclast %1, %0" : "+x"(state.raw) : "x"(key.raw));
  else
    asm("aesenc %1, %0" : "+x"(state.raw) : "x"(key.raw));
  return state;
#else
  V next;
  // "x" keeps shorter vectors to the registers that the form without AVX-512 has.
  if constexpr (sizeof(V) == 64 && kLast)
    asm("vaesenclast %2, %1, %0" : "=v"(next.raw) : "v"(state.raw), "v"(key.raw));
  else if constexpr (sizeof(V) == 64)
    asm("vaesenc %2, %1, %0" : "=v"(next.raw) : "v"(state.raw), "v"(key.raw));
  else if constexpr (kLast)
    asm("vaesenclast %2, %1, %0" : "=x"(next.raw) : "x"(state.raw), "x"(key.raw));
  else
    asm("vaesenc %2, %1, %0" : "=x"(next.raw) : "x"(state.raw), "x"(key.raw));
  return next;
#endif
}

namespace {  // internal linkage: units with other flags have their own

// The keys of all rounds, and the numbers of the blocks of a vector.
template <class D64, class V64 = hn::Vec<D64>>
struct ArsBlocks {
  static_assert(ars::rounds == 5);
  D64 d;
  V64 key_0, key_1, key_2, key_3, key_4, key_5, number;

  ArsBlocks(std::uint64_t seed, std::uint64_t first)
      : key_0(pairs(seed, 0)),
        key_1(key(seed, 1)),
        key_2(key(seed, 2)),
        key_3(key(seed, 3)),
        key_4(key(seed, 4)),
        key_5(key(seed, 5)) {
    alignas(64) static constexpr std::uint64_t indices[8] = {0, 0, 1, 0, 2, 0, 3, 0};
    number = hn::Add(hn::Load(d, indices), pairs(first, 0));
  }
  static HWY_INLINE V64 pairs(std::uint64_t low, std::uint64_t high) {
    return hn::OddEven(hn::Set(D64(), high), hn::Set(D64(), low));
  }
  static HWY_INLINE V64 key(std::uint64_t seed, std::uint64_t round) {
    return pairs(seed + round * ars::weyl_low, round * ars::weyl_high);
  }
  // The first words of a stream. The number of a block is combined with them (xor) before round 1.
  HWY_INLINE V64 start(const Draw& draw) const {
    return hn::Xor(key_0, pairs(0, std::uint64_t{draw.step} << 32 | draw.stream));
  }
  // The blocks of the present numbers.
  HWY_INLINE V64 words(V64 start_of_stream) const {
    V64 state = hn::Xor(number, start_of_stream);
    state = aes_round<false>(state, key_1);
    state = aes_round<false>(state, key_2);
    state = aes_round<false>(state, key_3);
    state = aes_round<false>(state, key_4);
    return aes_round<true>(state, key_5);
  }
  HWY_INLINE void next() { number = hn::Add(number, pairs(hn::Lanes(d) / 2, 0)); }
};

}  // namespace

template <class D64>
HWY_NOINLINE HWY_MAYBE_UNUSED static void ars_vectors(D64 d, const Draw& draw, std::uint64_t first,
                                                      std::size_t blocks,
                                                      std::uint32_t* HWY_RESTRICT out) {
  ArsBlocks<D64> at(draw.seed, first);
  const auto start = at.start(draw);
  for (std::size_t block = 0; block < blocks; block += hn::Lanes(d) / 2, at.next())
    store_bytes(d, at.words(start), out + 4 * block);
}

#endif

// Writes the words of blocks first, first + 1, ... of the stream, and up to ars_padding words more.
static inline void ars_words(const Draw& draw, std::uint64_t first, std::size_t blocks,
                             std::uint32_t* HWY_RESTRICT out) {
#if SOMA_HAS_AES
  const AesInstructions& aes = aes_instructions();
  if (aes.vectors) return ars_vectors(ArsLanes(), draw, first, blocks, out);
  if (aes.blocks) return ars_vectors(hn::Full128<std::uint64_t>(), draw, first, blocks, out);
#endif
  for (std::size_t block = 0; block < blocks; ++block) {
    const ArsCounter words = random_block(draw, first + block, DrawMapping::ars);
    for (std::size_t word = 0; word < 4; ++word) out[4 * block + word] = words[word];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
