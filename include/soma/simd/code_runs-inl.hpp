// Converts runs of stored codes to floats and back, in chunks that stay in the first-level cache.
// All code that reads or writes narrow elements uses these functions.

#if defined(SOMA_SIMD_CODE_RUNS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_SIMD_CODE_RUNS_INL_HPP
#undef SOMA_SIMD_CODE_RUNS_INL_HPP
#else
#define SOMA_SIMD_CODE_RUNS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/simd/ars-inl.hpp>
#include <soma/simd/codec_params.hpp>
#include <soma/simd/decode-inl.hpp>
#include <soma/simd/encode-inl.hpp>
#include <soma/simd/memory-inl.hpp>
#include <soma/simd/philox-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// 512 floats and their random words are 4 KiB: an eighth of the smallest first-level cache.
inline constexpr std::size_t convert_chunk = 512;
// Room for one more vector behind a buffer, so that loops may run over its end.
inline constexpr std::size_t lane_padding = 16;
// The random words of a chunk, and of a block before it.
inline constexpr std::size_t chunk_words =
    convert_chunk + 8 + (philox_padding > ars_padding ? philox_padding : ars_padding);
// At most 512 bits: so the buffers above are large enough for targets with longer or scalable
// vectors.
using Lanes32 = hn::CappedTag<std::uint32_t, lane_padding>;

struct ConvertBuffers {
  alignas(64) float values[convert_chunk + lane_padding];
  alignas(64) std::uint32_t words[chunk_words];
  alignas(64) std::byte codes[4 * (convert_chunk + lane_padding)];
  alignas(64) std::byte last[4 * lane_padding];  // a partial vector of codes
};

// ---- stored codes of 1, 2 and 4 bytes to and from u32 lanes

template <int kWidth, class D32>
HWY_INLINE hn::Vec<D32> load_codes(D32 d, const CodecParams& p, const std::byte* from) {
  if constexpr (kWidth == 1) {
    const hn::Rebind<std::uint8_t, D32> narrow;
    return hn::PromoteTo(d, load_bytes(narrow, from));
  } else if constexpr (kWidth == 2) {
    const hn::Rebind<std::uint16_t, D32> narrow;
    return hn::PromoteTo(d, load_bytes(narrow, from));
  } else {
    return hn::ShiftRightSame(load_bytes(d, from), p.storage_shift);
  }
}

template <int kWidth, class D32>
HWY_INLINE void store_codes(D32 d, const CodecParams& p, hn::Vec<D32> codes, std::byte* to) {
  if constexpr (kWidth == 1) {
    // Codes fit, so saturation changes nothing; TruncateTo to bytes is wrong for AVX3_DL in
    // Highway 1.0.3.
    const hn::Rebind<std::uint8_t, D32> narrow;
    const hn::RebindToSigned<D32> di;
    store_bytes(narrow, hn::DemoteTo(narrow, hn::BitCast(di, codes)), to);
  } else if constexpr (kWidth == 2) {
    const hn::Rebind<std::uint16_t, D32> narrow;
    store_bytes(narrow, hn::TruncateTo(narrow, codes), to);
  } else {
    store_bytes(d, hn::ShiftLeftSame(codes, p.storage_shift), to);
  }
}

// ---- decoding loops: read and write whole vectors, `count` rounded up

template <int kWidth, class Decode>
HWY_INLINE void decode_loop(const CodecParams& params, const std::byte* from, std::size_t count,
                            float* HWY_RESTRICT out, const Decode& decode_vector) {
  const Lanes32 d;
  const CodecParams p = params;  // a copy whose address does not leave: it can live in registers
  const hn::RebindToFloat<Lanes32> df;

  for (std::size_t i = 0; i < count; i += hn::Lanes(d))
    hn::StoreU(hn::BitCast(df, decode_vector(d, p, load_codes<kWidth>(d, p, from + i * kWidth))),
               df, out + i);
}

template <int kWidth>
HWY_NOINLINE HWY_MAYBE_UNUSED static void decode_codes(const CodecParams& params,
                                                       const std::byte* from, std::size_t count,
                                                       float* HWY_RESTRICT out) {
  if (params.fp32_layout)
    decode_loop<kWidth>(params, from, count, out,
                        [](auto d, const CodecParams& p, auto codes) HWY_ATTR {
                          (void)d;
                          return hn::ShiftLeftSame(codes, 23 - p.mantissa_bits);
                        });
  else if (params.deep)
    decode_loop<kWidth>(params, from, count, out,
                        [](auto d, const CodecParams& p, auto codes)
                            HWY_ATTR { return decode_lanes<true>(d, p, codes); });
  else
    decode_loop<kWidth>(params, from, count, out,
                        [](auto d, const CodecParams& p, auto codes)
                            HWY_ATTR { return decode_lanes<false>(d, p, codes); });
}

static inline void decode_whole_vectors(const CodecParams& p, const std::byte* from,
                                        std::size_t count, float* HWY_RESTRICT out) {
  if (p.width == 1) return decode_codes<1>(p, from, count, out);
  if (p.width == 2) return decode_codes<2>(p, from, count, out);
  return decode_codes<4>(p, from, count, out);
}

// Decodes up to a chunk of codes to floats. It reads no byte after the last code: the last, partial
// vector goes through a copy.
static inline void decode_chunk(const CodecParams& p, const std::byte* from, std::size_t count,
                                ConvertBuffers& buffers) {
  const std::size_t lanes = hn::Lanes(Lanes32());
  const std::size_t whole = count / lanes * lanes, rest = count - whole;
  const auto width = static_cast<std::size_t>(p.width);
  if (whole != 0) decode_whole_vectors(p, from, whole, buffers.values);
  if (rest == 0) return;
  std::memset(buffers.last, 0, width * lanes);
  std::memcpy(buffers.last, from + whole * width, width * rest);
  decode_whole_vectors(p, buffers.last, rest, buffers.values + whole);
}

// ---- encoding loops: write whole vectors, `count` rounded up

template <int kWidth, RoundingClass kClass, bool kDeep>
HWY_NOINLINE HWY_MAYBE_UNUSED static void encode_loop(const CodecParams& params,
                                                      const std::byte* from, std::size_t count,
                                                      std::byte* to, const std::byte* words) {
  const Lanes32 d;
  const hn::Rebind<std::uint16_t, decltype(d)> half;
  const CodecParams p = params;

  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    auto random = hn::Zero(d);
    if constexpr (kClass == RoundingClass::stochastic) {
      if (p.half_words)
        random = hn::ShiftLeft<16>(hn::PromoteTo(d, load_bytes(half, words + 2 * i)));
      else
        random = load_bytes(d, words + 4 * i);
    }
    store_codes<kWidth>(d, p,
                        encode_lanes<kClass, kDeep>(d, p, load_bytes(d, from + 4 * i), random),
                        to + i * kWidth);
  }
}

// For bf16, rounded to nearest even or with 16 random bits: this conversion has to be as fast as
// memory. Rounding discards the lower half of the bits, so it is one addition; the code is the
// upper half of what is returned. `random` is in the lower halves.
template <bool kStochastic, class D32>
HWY_INLINE hn::Vec<D32> bf16_halves(D32 d, hn::Vec<D32> bits, hn::Vec<D32> random) {
  auto addend = random;
  if constexpr (!kStochastic)
    addend = hn::Add(hn::Set(d, 0x7FFFu), hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1u)));
  auto halves = hn::Add(bits, addend);
  const hn::RebindToSigned<D32> di;  // magnitudes compare faster with signs
  const auto magnitude = hn::BitCast(di, hn::And(bits, hn::Set(d, 0x7FFFFFFFu)));
  const auto is_nan = hn::RebindMask(d, hn::Gt(magnitude, hn::Set(di, 0x7F800000)));
  if (HWY_UNLIKELY(!hn::AllFalse(d, is_nan))) {
    const auto empty = hn::Eq(hn::And(bits, hn::Set(d, 0x7F0000u)), hn::Zero(d));
    const auto quiet = hn::Or(bits, hn::IfThenElseZero(empty, hn::Set(d, 0x400000u)));
    halves = hn::IfThenElse(is_nan, quiet, halves);
  }
  return halves;
}
template <bool kStochastic, class D32>
HWY_INLINE hn::Vec<D32> bf16_codes(D32 d, hn::Vec<D32> bits, hn::Vec<D32> random) {
  return hn::ShiftRight<16>(bf16_halves<kStochastic>(d, bits, random));
}

template <bool kStochastic>
HWY_NOINLINE HWY_MAYBE_UNUSED static void encode_bf16(const std::byte* from, std::size_t count,
                                                      std::byte* to, const std::byte* words) {
  const Lanes32 d;
  const hn::Rebind<std::uint16_t, decltype(d)> half;
  const std::size_t lanes = hn::Lanes(d);
  const auto halves = [&](std::size_t at) HWY_ATTR {
    auto random = hn::Zero(d);
    if constexpr (kStochastic) random = hn::PromoteTo(d, load_bytes(half, words + 2 * at));
    return bf16_halves<kStochastic>(d, load_bytes(d, from + 4 * at), random);
  };
  std::size_t i = 0;
#if HWY_TARGET == HWY_AVX2
  // Two vectors at a time take fewer shuffles: 1.25 times as fast.
  const hn::Repartition<std::uint16_t, decltype(d)> d16;
  for (; i + 2 * lanes <= count; i += 2 * lanes)
    store_bytes(
        d16, hn::ConcatOdd(d16, hn::BitCast(d16, halves(i + lanes)), hn::BitCast(d16, halves(i))),
        to + 2 * i);
#endif
  for (; i < count; i += lanes)
    store_bytes(half, hn::TruncateTo(half, hn::ShiftRight<16>(halves(i))), to + 2 * i);
}

template <int kWidth>
static inline void encode_width(const CodecParams& p, const std::byte* from, std::size_t count,
                                std::byte* to, const std::byte* words) {
  using Class = RoundingClass;
  if (p.mode == RoundingMode::nearest_even)
    return p.deep ? encode_loop<kWidth, Class::nearest_even, true>(p, from, count, to, words)
                  : encode_loop<kWidth, Class::nearest_even, false>(p, from, count, to, words);
  if (p.mode == RoundingMode::stochastic)
    return p.deep ? encode_loop<kWidth, Class::stochastic, true>(p, from, count, to, words)
                  : encode_loop<kWidth, Class::stochastic, false>(p, from, count, to, words);
  return p.deep ? encode_loop<kWidth, Class::directed, true>(p, from, count, to, words)
                : encode_loop<kWidth, Class::directed, false>(p, from, count, to, words);
}

static inline bool draws_plain_bf16(const CodecParams& p) {
  return p.plain_bf16 && p.mode == RoundingMode::stochastic && p.random_mask == 0xFFFF0000u;
}

static inline void encode_whole_vectors(const CodecParams& p, const std::byte* from,
                                        std::size_t count, std::byte* to, const std::byte* words) {
  if (p.plain_bf16 && p.mode == RoundingMode::nearest_even)
    return encode_bf16<false>(from, count, to, words);
  if (draws_plain_bf16(p)) return encode_bf16<true>(from, count, to, words);
  if (p.width == 1) return encode_width<1>(p, from, count, to, words);
  if (p.width == 2) return encode_width<2>(p, from, count, to, words);
  return encode_width<4>(p, from, count, to, words);
}

// Returns the address of the word of element `index`, and fills `words`, chunk_words for a chunk,
// with the blocks that cover `count` elements from there.
static inline const std::byte* draw_words(const CodecParams& p, const Draw& draw,
                                          std::uint64_t index, std::size_t count,
                                          std::uint32_t* words) {
  const std::uint64_t per_block = p.half_words ? 8 : 4;
  const auto lead = static_cast<std::size_t>(index % per_block);
  const std::size_t blocks = (lead + count + static_cast<std::size_t>(per_block) - 1) /
                             static_cast<std::size_t>(per_block);
  if (p.draws == DrawMapping::ars)
    ars_words(draw, index / per_block, blocks, words);
  else
    philox_words(draw, index / per_block, blocks, words);
  return reinterpret_cast<const std::byte*>(words) + lead * (p.half_words ? 2 : 4);
}

// Writes no byte behind the last code. `values` may lie in the source, which `to` may overlap from
// its start.
static inline void encode_chunk(const CodecParams& p, const std::byte* values, std::size_t count,
                                std::byte* to, const Draw& draw, ConvertBuffers& buffers) {
  const std::size_t lanes = hn::Lanes(Lanes32());
  const std::size_t whole = count / lanes * lanes, rest = count - whole;
  const auto width = static_cast<std::size_t>(p.width);
  const std::byte* words = nullptr;
  if (p.mode == RoundingMode::stochastic)
    words = draw_words(p, draw, draw.index, count, buffers.words);
  const std::size_t word_width = p.half_words ? 2 : 4;
  if (whole != 0) encode_whole_vectors(p, values, whole, to, words);
  if (rest == 0) return;
  const std::byte* rest_words = words != nullptr ? words + whole * word_width : nullptr;
  encode_whole_vectors(p, values + 4 * whole, rest, buffers.last, rest_words);
  std::memcpy(to + whole * width, buffers.last, rest * width);
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
