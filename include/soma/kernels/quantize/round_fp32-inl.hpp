// Rounds fp32 numbers to a narrow format without computing codes: for finite values, to nearest
// even, in a format with subnormals.
//
// A magnitude a with exponent e has the spacing 2^(e - M); below the smallest normal number the
// spacing is that number's. In the sum t of a and 2^(e - M + 23), this spacing is the last place,
// so the addition rounds a. t less that power is the rounded number, and the difference of their
// bits counts its spacings. A minimum between the product with the inverse scale and the sum
// prevents contraction, which could change a bit.

#if defined(SOMA_KERNELS_QUANTIZE_ROUND_FP32_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_QUANTIZE_ROUND_FP32_INL_HPP
#undef SOMA_KERNELS_QUANTIZE_ROUND_FP32_INL_HPP
#else
#define SOMA_KERNELS_QUANTIZE_ROUND_FP32_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/numeric/codec.hpp>
#include <soma/simd/code_runs-inl.hpp>
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

using SignedLanes32 = hn::RebindToSigned<Lanes32>;
using FloatLanes32 = hn::RebindToFloat<Lanes32>;

struct QuickFormat {
  std::int32_t lowest;      // the exponent of the smallest normal number, in fp32's field
  std::int32_t to_spacing;  // from a number's exponent field to that of the power it is added to
  int discarded;            // bits of fp32's mantissa that go
  int sign_shift;           // from bit 31 to the sign bit
  float largest;
  std::int32_t limit;  // bits of the largest |x| that is rounded here
};

// One scale and inverse for each `group` elements, which is 16 or a multiple of 32; or for each
// element.
struct QuickScales {
  const float *scales, *inverses;
  std::size_t group;
};

// false: a number was not finite or, without a scale, too large; then the written numbers are
// wrong.
using QuickLoop = bool (*)(const QuickFormat&, const std::byte* from, std::size_t count,
                           const QuickScales&, std::byte* to);

static inline bool is_quick(const FloatFormat& f, const Rounding& rounding) {
  return rounding.mode == RoundingMode::nearest_even && f.is_signed &&
         f.subnormals == Subnormals::kept && f.specials != Specials::nan_negative_zero &&
         f.mantissa_bits >= 1 && f.mantissa_bits <= 10 && f.min_normal_exponent() >= -126 &&
         f.max_exponent() + 24 - f.mantissa_bits <= 127;
}

// For a format that is_quick(). With a scale, large numbers saturate at the largest finite number;
// without a scale they follow the format's rule.
static inline QuickFormat make_quick_format(const FloatFormat& f, bool scaled) {
  const float largest = decode(f, f.max_finite_code());
  const int discarded = 23 - f.mantissa_bits;
  return {(f.min_normal_exponent() + 127) * (1 << 23),
          discarded * (1 << 23),
          discarded,
          31 - (f.exponent_bits + f.mantissa_bits),
          largest,
          scaled ? 0x7F7FFFFF : std::bit_cast<std::int32_t>(largest)};
}

// fp32 bits of a vector of bf16 or fp32.
template <bool kFromBf16>
HWY_INLINE hn::Vec<SignedLanes32> load_quick(const std::byte* from) {
  const Lanes32 d;
  const SignedLanes32 di;
  if constexpr (kFromBf16) {
    const hn::Rebind<std::uint16_t, Lanes32> half;
    return hn::BitCast(di, hn::ShiftLeft<16>(hn::PromoteTo(d, load_bytes(half, from))));
  } else {
    return load_bytes(di, from);
  }
}

// Width 4 stores fp32 bits, 2 rounds them to bf16, 1 stores codes.
template <std::size_t kWidth>
HWY_INLINE void store_quick(hn::Vec<SignedLanes32> bits, std::byte* to) {
  const Lanes32 d;
  const SignedLanes32 di;
  if constexpr (kWidth == 4) {
    store_bytes(di, bits, to);
  } else if constexpr (kWidth == 2) {
    const hn::Rebind<std::uint16_t, Lanes32> half;
    const auto b = hn::BitCast(d, bits);
    const auto odd = hn::And(hn::ShiftRight<16>(b), hn::Set(d, 1u));
    const auto rounded = hn::Add(b, hn::Add(odd, hn::Set(d, 0x7FFFu)));
    store_bytes(half, hn::TruncateTo(half, hn::ShiftRight<16>(rounded)), to);
  } else {
    const hn::Rebind<std::uint8_t, Lanes32> narrow;
    store_bytes(narrow, hn::DemoteTo(narrow, bits), to);
  }
}

// Returns |x|.
template <bool kFromBf16, std::size_t kWidth>
HWY_INLINE hn::Vec<SignedLanes32> quick_vector(const QuickFormat& f, const std::byte* from,
                                               hn::Vec<FloatLanes32> scale,
                                               hn::Vec<FloatLanes32> inverse, std::byte* to) {
  const SignedLanes32 di;
  const FloatLanes32 df;
  const auto x = load_quick<kFromBf16>(from);
  const auto magnitude = hn::And(x, hn::Set(di, 0x7FFFFFFF));
  const auto sign = hn::AndNot(hn::Set(di, 0x7FFFFFFF), x);
  const auto a = hn::Min(hn::Mul(hn::BitCast(df, magnitude), inverse), hn::Set(df, f.largest));
  const auto exponent =
      hn::Max(hn::And(hn::BitCast(di, a), hn::Set(di, 0x7F800000)), hn::Set(di, f.lowest));
  const auto power = hn::Add(exponent, hn::Set(di, f.to_spacing));
  const auto sum = hn::Add(a, hn::BitCast(df, power));
  if constexpr (kWidth == 1) {
    const auto spacings = hn::Sub(hn::BitCast(di, sum), power);
    const auto field = hn::ShiftRightSame(hn::Sub(exponent, hn::Set(di, f.lowest)), f.discarded);
    const auto sign_bit =
        hn::BitCast(di, hn::ShiftRightSame(hn::BitCast(Lanes32(), sign), f.sign_shift));
    store_quick<1>(hn::Or(hn::Add(spacings, field), sign_bit), to);
  } else {
    const auto y = hn::Mul(hn::Sub(sum, hn::BitCast(df, power)), scale);
    store_quick<kWidth>(hn::Or(hn::BitCast(di, y), sign), to);
  }
  return magnitude;
}

template <bool kFromBf16, std::size_t kWidth, bool kByColumn>
HWY_NOINLINE HWY_MAYBE_UNUSED static bool quick_loop(const QuickFormat& format,
                                                     const std::byte* from, std::size_t count,
                                                     const QuickScales& scales, std::byte* to) {
  const SignedLanes32 di;
  const FloatLanes32 df;
  constexpr std::size_t from_width = kFromBf16 ? 2 : 4;
  const QuickFormat f = format;  // a copy whose address does not leave: it can live in registers
  const std::size_t lanes = hn::Lanes(di), whole = count / lanes * lanes, rest = count - whole;
  const std::size_t group = kByColumn ? count : scales.group;
  auto worst = hn::Zero(di);
  for (std::size_t begin = 0, g = 0; begin < whole; begin += group, ++g) {
    auto scale = hn::Set(df, scales.scales[g]), inverse = hn::Set(df, scales.inverses[g]);
    const std::size_t end = (std::min)(begin + group, whole);
    for (std::size_t i = begin; i < end; i += lanes) {
      if constexpr (kByColumn) {
        scale = hn::LoadU(df, scales.scales + i);
        inverse = hn::LoadU(df, scales.inverses + i);
      }
      worst = hn::Max(worst, quick_vector<kFromBf16, kWidth>(f, from + i * from_width, scale,
                                                             inverse, to + i * kWidth));
    }
  }
  if (rest != 0) {
    alignas(64) std::byte last[4 * lane_padding] = {}, result[4 * lane_padding];
    std::memcpy(last, from + whole * from_width, rest * from_width);
    const std::size_t at = kByColumn ? whole : whole / group;
    auto scale = hn::Set(df, scales.scales[at]), inverse = hn::Set(df, scales.inverses[at]);
    if constexpr (kByColumn) {  // behind the last one there is room
      scale = hn::LoadU(df, scales.scales + at);
      inverse = hn::LoadU(df, scales.inverses + at);
    }
    worst = hn::Max(worst, quick_vector<kFromBf16, kWidth>(f, last, scale, inverse, result));
    std::memcpy(to + whole * kWidth, result, rest * kWidth);
  }
  return hn::AllFalse(di, hn::Gt(worst, hn::Set(di, f.limit)));
}

template <bool kFromBf16, bool kByColumn>
static inline QuickLoop quick_loop_to(std::size_t width) {
  return width == 1   ? quick_loop<kFromBf16, 1, kByColumn>
         : width == 2 ? quick_loop<kFromBf16, 2, kByColumn>
                      : quick_loop<kFromBf16, 4, kByColumn>;
}

static inline QuickLoop quick_loop_for(bool from_bf16, std::size_t width, bool by_column) {
  if (from_bf16)
    return by_column ? quick_loop_to<true, true>(width) : quick_loop_to<true, false>(width);
  return by_column ? quick_loop_to<false, true>(width) : quick_loop_to<false, false>(width);
}

// ---- amax, as bits of magnitudes, which ascend with them

template <bool kFinite, class V>
HWY_INLINE V if_finite(V magnitude) {
  if constexpr (!kFinite) return magnitude;
  const hn::DFromV<V> di;
  return hn::IfThenElseZero(hn::Lt(magnitude, hn::Set(di, 0x7F800000)), magnitude);
}

// maxima[i] = max(itself, |x[i]|), of finite x[i] only where kFinite; `count` rounded up to whole
// vectors.
template <bool kFromBf16, bool kFinite>
HWY_NOINLINE HWY_MAYBE_UNUSED static void raise_columns(const std::byte* from, std::size_t count,
                                                        std::int32_t* maxima) {
  const SignedLanes32 di;
  constexpr std::size_t width = kFromBf16 ? 2 : 4;
  const auto raise = [&](const std::byte* at, std::int32_t* to) HWY_ATTR {
    const auto magnitude = hn::And(load_quick<kFromBf16>(at), hn::Set(di, 0x7FFFFFFF));
    hn::StoreU(hn::Max(hn::LoadU(di, to), if_finite<kFinite>(magnitude)), di, to);
  };
  const std::size_t lanes = hn::Lanes(di), whole = count / lanes * lanes, rest = count - whole;
  for (std::size_t i = 0; i < whole; i += lanes) raise(from + i * width, maxima + i);
  if (rest == 0) return;
  alignas(64) std::byte last[4 * lane_padding] = {};
  std::memcpy(last, from + whole * width, rest * width);
  raise(last, maxima + whole);
}

// Two bf16 numbers are read as one word: each half, shifted to the upper half, is an fp32 number.
// Lanes: at most `group` numbers of a vector, so that no vector lies in two groups.
template <bool kFromBf16, bool kFinite, class Lanes>
HWY_INLINE void raise_groups_by(const std::byte* from, std::size_t count, std::size_t group,
                                std::int32_t* maxima) {
  const Lanes di;
  constexpr std::size_t width = kFromBf16 ? 2 : 4;
  const auto larger = [&](auto most, const std::byte* at) HWY_ATTR {
    const auto word = load_bytes(di, at);
    if constexpr (kFromBf16) {
      const auto low = hn::And(hn::ShiftLeft<16>(word), hn::Set(di, 0x7FFFFFFF));
      const auto high = hn::And(word, hn::Set(di, 0x7FFF0000));
      return hn::Max(hn::Max(most, if_finite<kFinite>(low)), if_finite<kFinite>(high));
    } else {
      return hn::Max(most, if_finite<kFinite>(hn::And(word, hn::Set(di, 0x7FFFFFFF))));
    }
  };
  const std::size_t step = hn::Lanes(di) * (4 / width);
  const std::size_t whole = count / step * step, rest = count - whole;
  for (std::size_t begin = 0, g = 0; begin < whole; begin += group, ++g) {
    auto most = hn::LoadU(di, maxima + g * lane_padding);
    const std::size_t end = (std::min)(begin + group, whole);
    for (std::size_t i = begin; i < end; i += step) most = larger(most, from + i * width);
    hn::StoreU(most, di, maxima + g * lane_padding);
  }
  if (rest == 0) return;
  alignas(64) std::byte last[4 * lane_padding] = {};
  std::memcpy(last, from + whole * width, rest * width);
  std::int32_t* at = maxima + whole / group * lane_padding;
  hn::StoreU(larger(hn::LoadU(di, at), last), di, at);
}

template <bool kFromBf16, bool kFinite>
HWY_NOINLINE HWY_MAYBE_UNUSED static void raise_groups(const std::byte* from, std::size_t count,
                                                       std::size_t group, std::int32_t* maxima) {
  if (group < 32)
    raise_groups_by<kFromBf16, kFinite, hn::CappedTag<std::int32_t, 8>>(from, count, group, maxima);
  else
    raise_groups_by<kFromBf16, kFinite, SignedLanes32>(from, count, group, maxima);
}

// amax[g] = max(itself, all maxima of group g), by their bits.
HWY_NOINLINE HWY_MAYBE_UNUSED static void join_maxima(const std::int32_t* maxima,
                                                      std::size_t groups, float* amax) {
  const SignedLanes32 di;
  for (std::size_t g = 0; g < groups; ++g) {
    const auto most = hn::LoadU(di, maxima + g * lane_padding);
    const std::int32_t bits = hn::GetLane(hn::MaxOfLanes(di, most));
    amax[g] = std::bit_cast<float>((std::max)(std::bit_cast<std::int32_t>(amax[g]), bits));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
