// The random entry of the kernel table: uniform, normal and Bernoulli draws, a chunk of blocks at a
// time.

#if defined(SOMA_KERNELS_RANDOM_RANDOM_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_RANDOM_RANDOM_INL_HPP
#undef SOMA_KERNELS_RANDOM_RANDOM_INL_HPP
#else
#define SOMA_KERNELS_RANDOM_RANDOM_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/random/args.hpp>
#include <soma/simd/normal-inl.hpp>
#include <soma/simd/philox-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements of a chunk; their words and floats are 4 KiB.
inline constexpr std::size_t random_chunk = 512;

// The upper 24 bits of each word as a multiple of 2^-24.
HWY_NOINLINE HWY_MAYBE_UNUSED static void uniform_from_words(const std::uint32_t* words,
                                                             std::size_t count, float* out) {
  const hn::CappedTag<std::uint32_t, 16> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::RebindToFloat<decltype(d)> df;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto integer = hn::BitCast(di, hn::ShiftRight<8>(hn::LoadU(d, words + i)));
    hn::StoreU(hn::Mul(hn::ConvertTo(df, integer), hn::Set(df, 0x1p-24f)), df, out + i);
  }
}

// `count` is a multiple of 4: whole blocks, two pairs each.
HWY_NOINLINE HWY_MAYBE_UNUSED static void normal_from_words(const std::uint32_t* words,
                                                            std::size_t count, float* out) {
  const hn::CappedTag<std::uint32_t, 16> d;
  const hn::RebindToFloat<decltype(d)> df;
  alignas(64) std::uint32_t radius[16] = {}, angle[16] = {};
  alignas(64) float first[16], second[16];
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t pair = 0; pair < count / 2; pair += lanes) {
    const std::size_t length = (std::min)(lanes, count / 2 - pair);
    for (std::size_t i = 0; i < length; ++i) {
      radius[i] = words[2 * (pair + i)];
      angle[i] = words[2 * (pair + i) + 1];
    }
    auto a = hn::Zero(df), b = hn::Zero(df);
    normal_pair(d, hn::Load(d, radius), hn::Load(d, angle), a, b);
    hn::Store(a, df, first);
    hn::Store(b, df, second);
    for (std::size_t i = 0; i < length; ++i) {
      out[2 * (pair + i)] = first[i];
      out[2 * (pair + i) + 1] = second[i];
    }
  }
}

static inline void bernoulli_from_words(const std::uint32_t* words, std::size_t count,
                                        std::uint64_t threshold, float* out) {
  for (std::size_t i = 0; i < count; ++i) out[i] = words[i] < threshold ? 1.0f : 0.0f;
}

static inline void random_kernel(const RandomArgs& args) noexcept {
  alignas(64) std::uint32_t words[random_chunk + 4 + philox_padding];
  alignas(64) float values[random_chunk + 4 + 16];
  for (std::size_t done = 0; done < args.count; done += random_chunk) {
    const std::uint64_t index = args.draw.index + done;
    const std::size_t count = (std::min)(random_chunk, args.count - done);
    const auto lead = static_cast<std::size_t>(index % 4);
    const std::size_t blocks = (lead + count + 3) / 4;
    philox_words(args.draw, index / 4, blocks, words);
    switch (args.distribution) {
      case Distribution::uniform:
        uniform_from_words(words, 4 * blocks, values);
        break;
      case Distribution::normal:
        normal_from_words(words, 4 * blocks, values);
        break;
      case Distribution::bernoulli:
        bernoulli_from_words(words, 4 * blocks, args.threshold, values);
        break;
    }
    std::memcpy(args.out + done, values + lead, count * sizeof(float));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
