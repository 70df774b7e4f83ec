// Rounds bf16 numbers to a narrow format with powers of two as scales, in lanes of 16 bits: twice
// as many at a time as in fp32. To nearest even, or stochastic with 16 random bits.
//
// The bits of a bf16 magnitude, less 128 times the scale's exponent, are those of the scaled
// number. An integer addition rounds them to the format's mantissa. Below the format's smallest
// normal number the results are few multiples of its spacing: each has a least number that rounds
// to it, and comparisons count. Stochastic rounding adds random bits in place of a half; below that
// number it does so to the multiple as an integer, with 16 bits behind the point.

#if defined(SOMA_KERNELS_QUANTIZE_ROUND_BF16_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_QUANTIZE_ROUND_BF16_INL_HPP
#undef SOMA_KERNELS_QUANTIZE_ROUND_BF16_INL_HPP
#else
#define SOMA_KERNELS_QUANTIZE_ROUND_BF16_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/quantize/round_fp32-inl.hpp>
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

using Halves = hn::CappedTag<std::int16_t, 32>;  // at most a group of 32
using HalfVector = hn::Vec<Halves>;
inline constexpr std::size_t half_padding = 32;
// Columns at a time where each has a scale of its own: rows are read and written in long runs.
inline constexpr std::size_t wide_run = 2048;

// A format of at most 8 bits for scaled numbers, as bits of bf16.
struct HalfFormat {
  static constexpr int most_steps = 8;

  bool usable = false;
  int mantissa = 0, discarded = 0, sign_shift = 0, steps = 0;
  std::int16_t largest = 0, normal = 0, carry = 0, mask = 0;
  std::int16_t largest_code = 0;
  std::int16_t code_offset = 0;  // a normal number's shifted bits less its code
  std::int16_t least[most_steps] = {}, value[most_steps] = {};  // that rounds to value, and value
  float unit = 0, to_integer = 0;  // the spacing, and what makes a multiple such an integer
  int most_exponent =
      0;  // the scales' limit, up and down, with which no step leaves bf16's normal numbers
};

constexpr std::int16_t half_bits(float value) {
  return static_cast<std::int16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

static inline HalfFormat make_half_format(const FloatFormat& f) {
  HalfFormat h;
  if (!is_quick(f, Rounding::nearest_even) || f.bytes() != 1 || f.mantissa_bits > 3) return h;
  const int spacing = f.min_normal_exponent() - f.mantissa_bits;
  h.most_exponent = (std::min)({100, spacing + 127 - 4, 127 - f.max_exponent() - 2});
  h.usable = h.most_exponent > 0;
  h.mantissa = f.mantissa_bits;
  h.discarded = 7 - f.mantissa_bits;
  h.sign_shift = 15 - (f.exponent_bits + f.mantissa_bits);
  h.steps = 1 << f.mantissa_bits;
  h.largest = half_bits(decode(f, f.max_finite_code()));
  h.largest_code = static_cast<std::int16_t>(f.max_finite_code());
  h.normal = half_bits(soma::detail::two_to(f.min_normal_exponent()));
  h.carry = static_cast<std::int16_t>((1 << (h.discarded - 1)) - 1);
  h.mask = static_cast<std::int16_t>(-(1 << h.discarded));
  h.code_offset =
      static_cast<std::int16_t>((f.min_normal_exponent() + 126) * (1 << f.mantissa_bits));
  const float unit = soma::detail::two_to(spacing);
  h.unit = unit;
  h.to_integer = soma::detail::two_to(16 - spacing);
  for (int i = 0; i < h.steps; ++i) {
    const auto at = static_cast<float>(i);
    // A tie goes to the even multiple.
    h.least[i] = static_cast<std::int16_t>(half_bits((at + 0.5f) * unit) + (i % 2 == 0 ? 1 : 0));
    h.value[i] = half_bits((at + 1) * unit);
  }
  return h;
}

using RandomHalves = hn::RebindToUnsigned<Halves>;
#if HWY_TARGET != HWY_SCALAR
// Half a vector: the multiples of the spacing, or their values, of numbers below the smallest
// normal one.
template <std::size_t kWidth, class Numbers, class Random>
HWY_INLINE Numbers few_of_half(const HalfFormat& f, Numbers scaled, Random random) {
  const hn::DFromV<Numbers> half;
  const hn::Rebind<std::int32_t, decltype(half)> wide;
  const hn::RebindToFloat<decltype(wide)> df;
  const auto bits = hn::ShiftLeft<16>(hn::PromoteTo(wide, scaled));
  const auto exact = hn::ConvertTo(wide, hn::Mul(hn::BitCast(df, bits), hn::Set(df, f.to_integer)));
  const auto count = hn::ShiftRight<16>(hn::Add(exact, hn::PromoteTo(wide, random)));
  if constexpr (kWidth == 1) {
    return hn::DemoteTo(half, count);
  } else {
    const auto value = hn::Mul(hn::ConvertTo(df, count), hn::Set(df, f.unit));
    return hn::DemoteTo(half, hn::ShiftRight<16>(hn::BitCast(wide, value)));
  }
}
template <std::size_t kWidth>
HWY_INLINE HalfVector few_at_random(const HalfFormat& f, HalfVector scaled,
                                    hn::Vec<RandomHalves> random) {
  const Halves d;
  const hn::Half<Halves> half;
  const hn::Half<RandomHalves> random_half;
  const auto within = hn::Min(hn::Max(scaled, hn::Zero(d)), hn::Set(d, f.normal));
  return hn::Combine(
      d, few_of_half<kWidth>(f, hn::UpperHalf(half, within), hn::UpperHalf(random_half, random)),
      few_of_half<kWidth>(f, hn::LowerHalf(half, within), hn::LowerHalf(random_half, random)));
}
#endif

// Rounds a vector. shift: 128 times the exponent of the scale. Width 2 stores bf16, 1 codes.
// random: for stochastic rounding.
template <std::size_t kWidth, bool kStochastic>
HWY_INLINE void round_halves(const HalfFormat& f, HalfVector x, HalfVector shift,
                             hn::Vec<RandomHalves> random, std::byte* to) {
  const Halves d;
  const auto set = [&](int value) HWY_ATTR { return hn::Set(d, static_cast<std::int16_t>(value)); };
  const auto magnitude = hn::And(x, set(0x7FFF));
  const auto scaled = hn::Min(hn::Sub(magnitude, shift), set(f.largest));
  auto addend = hn::Zero(d);
  if constexpr (kStochastic) {
    addend = hn::BitCast(d, hn::ShiftRightSame(random, 16 - f.discarded));
  } else {
    (void)random;
    addend = hn::Add(hn::And(hn::ShiftRightSame(scaled, f.discarded), set(1)), set(f.carry));
  }
  auto result = hn::And(hn::Add(scaled, addend), set(f.mask));
  if constexpr (kWidth == 1)
    result = hn::Sub(hn::ShiftRightSame(result, f.discarded), set(f.code_offset));
  const auto low = hn::Lt(scaled, set(f.normal));
  if (!hn::AllFalse(d, low)) {
    auto few = hn::Zero(d);
#if HWY_TARGET != HWY_SCALAR
    if constexpr (kStochastic) few = few_at_random<kWidth>(f, scaled, random);
#endif
    for (int i = 0; !kStochastic && i < f.steps; ++i) {
      const auto reached = hn::VecFromMask(d, hn::Gt(scaled, set(f.least[i] - 1)));
      if constexpr (kWidth == 1)
        few = hn::Sub(few, reached);
      else
        few = hn::Max(few, hn::And(reached, set(f.value[i])));
    }
    result = hn::IfThenElse(low, few, result);
  }
  if constexpr (kWidth == 1) {
    const hn::RebindToUnsigned<Halves> du;
    const hn::Rebind<std::uint8_t, Halves> narrow;
    const auto sign = hn::And(hn::BitCast(du, x), hn::Set(du, std::uint16_t{0x8000}));
    const auto code = hn::Or(result, hn::BitCast(d, hn::ShiftRightSame(sign, f.sign_shift)));
    store_bytes(narrow, hn::DemoteTo(narrow, code), to);
  } else {
    const auto number = hn::IfThenElseZero(hn::Gt(result, hn::Zero(d)), hn::Add(result, shift));
    store_bytes(d, hn::Or(number, hn::AndNot(set(0x7FFF), x)), to);
  }
}

// Rounds `count` numbers, of which each `group` has a shift; group 1: each its own.
using HalfLoop = void (*)(const HalfFormat&, const std::byte* from, std::size_t count,
                          const std::int16_t* shifts, std::size_t group, const std::byte* words,
                          std::byte* to);

template <std::size_t kWidth, bool kByColumn, bool kStochastic>
HWY_NOINLINE HWY_MAYBE_UNUSED static void half_loop(const HalfFormat& format, const std::byte* from,
                                                    std::size_t count, const std::int16_t* shifts,
                                                    std::size_t group, const std::byte* words,
                                                    std::byte* to) {
  const RandomHalves dr;
  const auto random_at = [&](std::size_t i) HWY_ATTR {
    if constexpr (kStochastic)
      return load_bytes(dr, words + 2 * i);
    else
      return hn::Zero(dr);
  };
  const Halves d;
  const HalfFormat f = format;
  const std::size_t lanes = hn::Lanes(d), whole = count / lanes * lanes, rest = count - whole;
  const std::size_t run = kByColumn ? count : group;
  for (std::size_t begin = 0, g = 0; begin < whole; begin += run, ++g) {
    auto shift = hn::Set(d, shifts[g]);
    const std::size_t end = (std::min)(begin + run, whole);
    for (std::size_t i = begin; i < end; i += lanes) {
      if constexpr (kByColumn) shift = hn::LoadU(d, shifts + i);
      round_halves<kWidth, kStochastic>(f, load_bytes(d, from + 2 * i), shift, random_at(i),
                                        to + i * kWidth);
    }
  }
  if (rest == 0) return;
  alignas(64) std::byte last[2 * half_padding] = {}, result[2 * half_padding];
  std::memcpy(last, from + 2 * whole, 2 * rest);
  auto shift = hn::Set(d, shifts[kByColumn ? whole : whole / group]);
  if constexpr (kByColumn) shift = hn::LoadU(d, shifts + whole);  // behind the last there is room
  round_halves<kWidth, kStochastic>(f, load_bytes(d, last), shift, random_at(whole), result);
  std::memcpy(to + whole * kWidth, result, rest * kWidth);
}

template <bool kStochastic>
static inline HalfLoop half_loop_for(std::size_t width, bool by_column) {
  if (width == 1)
    return by_column ? half_loop<1, true, kStochastic> : half_loop<1, false, kStochastic>;
  return by_column ? half_loop<2, true, kStochastic> : half_loop<2, false, kStochastic>;
}

// True if a rounding has a loop here.
static inline bool rounds_halves(const Rounding& rounding, const FloatFormat& format) {
  const bool stochastic = rounding.mode == RoundingMode::stochastic &&
                          random_bits(rounding, format) == 16 && HWY_TARGET != HWY_SCALAR;
  return stochastic || rounding == Rounding::nearest_even;
}

// ---- amax, as bits of magnitudes

// maxima[i] = max(itself, |x[i]|); `count` rounded up to whole vectors.
HWY_NOINLINE HWY_MAYBE_UNUSED static void raise_half_columns(const std::byte* from,
                                                             std::size_t count,
                                                             std::int16_t* maxima) {
  const Halves d;
  const auto raise = [&](const std::byte* at, std::int16_t* to) HWY_ATTR {
    const auto magnitude = hn::And(load_bytes(d, at), hn::Set(d, std::int16_t{0x7FFF}));
    hn::StoreU(hn::Max(hn::LoadU(d, to), magnitude), d, to);
  };
  const std::size_t lanes = hn::Lanes(d), whole = count / lanes * lanes, rest = count - whole;
  for (std::size_t i = 0; i < whole; i += lanes) raise(from + 2 * i, maxima + i);
  if (rest == 0) return;
  alignas(64) std::byte last[2 * half_padding] = {};
  std::memcpy(last, from + 2 * whole, 2 * rest);
  raise(last, maxima + whole);
}

HWY_INLINE std::int16_t largest_half(HalfVector v) {
#if HWY_TARGET == HWY_SCALAR
  return hn::GetLane(v);
#else
  const hn::Repartition<std::int32_t, Halves> wide;
  const auto pairs = hn::BitCast(wide, v);
  const auto larger = hn::Max(hn::And(pairs, hn::Set(wide, 0xFFFF)), hn::ShiftRight<16>(pairs));
  return static_cast<std::int16_t>(hn::GetLane(hn::MaxOfLanes(wide, larger)));
#endif
}

// maxima[g] = max(itself, magnitudes of group g).
HWY_NOINLINE HWY_MAYBE_UNUSED static void raise_half_groups(const std::byte* from,
                                                            std::size_t count, std::size_t group,
                                                            std::int16_t* maxima) {
  const Halves d;
  const auto magnitude = hn::Set(d, std::int16_t{0x7FFF});
  const std::size_t lanes = hn::Lanes(d), whole = count / lanes * lanes, rest = count - whole;
  for (std::size_t begin = 0, g = 0; begin < count; begin += group, ++g) {
    auto most = hn::Zero(d);
    const std::size_t end = (std::min)(begin + group, whole);
    for (std::size_t i = begin; i < end; i += lanes)
      most = hn::Max(most, hn::And(load_bytes(d, from + 2 * i), magnitude));
    if (rest != 0 && begin + group >= count) {
      alignas(64) std::byte last[2 * half_padding] = {};
      std::memcpy(last, from + 2 * whole, 2 * rest);
      most = hn::Max(most, hn::And(load_bytes(d, last), magnitude));
    }
    maxima[g] = (std::max)(maxima[g], largest_half(most));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
