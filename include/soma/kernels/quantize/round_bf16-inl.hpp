// Rounds bf16 numbers to a narrow format with powers of two as scales, in lanes of 16 bits: twice
// as many at a time as in fp32. To nearest even.
//
// The bits of a bf16 magnitude, less 128 times the scale's exponent, are those of the scaled
// number. An integer addition rounds them to the format's mantissa. Below the format's smallest
// normal number the results are few multiples of its spacing: each has a least number that rounds
// to it, and comparisons count.

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

// A format of at most 8 bits for scaled numbers, as bits of bf16.
struct HalfFormat {
  static constexpr int most_steps = 8;

  bool usable = false;
  int mantissa = 0, discarded = 0, sign_shift = 0, steps = 0;
  std::int16_t largest = 0, normal = 0, carry = 0, mask = 0;
  std::int16_t largest_code = 0;
  std::int16_t code_offset = 0;  // of a normal number's shifted bits over its code
  std::int16_t least[most_steps] = {}, value[most_steps] = {};  // that rounds to value, and value
  int most_exponent = 0;  // of scales, up and down, with which no step leaves bf16's normal numbers
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
  for (int i = 0; i < h.steps; ++i) {
    const auto at = static_cast<float>(i);
    // A tie goes to the even multiple.
    h.least[i] = static_cast<std::int16_t>(half_bits((at + 0.5f) * unit) + (i % 2 == 0 ? 1 : 0));
    h.value[i] = half_bits((at + 1) * unit);
  }
  return h;
}

// Rounds a vector. shift: 128 times the exponent of the scale. Width 2 stores bf16, 1 codes.
template <std::size_t kWidth>
HWY_INLINE void round_halves(const HalfFormat& f, HalfVector x, HalfVector shift, std::byte* to) {
  const Halves d;
  const auto set = [&](int value) HWY_ATTR { return hn::Set(d, static_cast<std::int16_t>(value)); };
  const auto magnitude = hn::And(x, set(0x7FFF));
  const auto scaled = hn::Min(hn::Sub(magnitude, shift), set(f.largest));
  const auto odd = hn::And(hn::ShiftRightSame(scaled, f.discarded), set(1));
  auto result = hn::And(hn::Add(hn::Add(scaled, set(f.carry)), odd), set(f.mask));
  if constexpr (kWidth == 1)
    result = hn::Sub(hn::ShiftRightSame(result, f.discarded), set(f.code_offset));
  const auto low = hn::Lt(scaled, set(f.normal));
  if (!hn::AllFalse(d, low)) {
    auto few = hn::Zero(d);
    for (int i = 0; i < f.steps; ++i) {
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
                          const std::int16_t* shifts, std::size_t group, std::byte* to);

template <std::size_t kWidth, bool kByColumn>
HWY_NOINLINE HWY_MAYBE_UNUSED static void half_loop(const HalfFormat& format, const std::byte* from,
                                                    std::size_t count, const std::int16_t* shifts,
                                                    std::size_t group, std::byte* to) {
  const Halves d;
  const HalfFormat f = format;
  const std::size_t lanes = hn::Lanes(d), whole = count / lanes * lanes, rest = count - whole;
  const std::size_t run = kByColumn ? count : group;
  for (std::size_t begin = 0, g = 0; begin < whole; begin += run, ++g) {
    auto shift = hn::Set(d, shifts[g]);
    const std::size_t end = (std::min)(begin + run, whole);
    for (std::size_t i = begin; i < end; i += lanes) {
      if constexpr (kByColumn) shift = hn::LoadU(d, shifts + i);
      round_halves<kWidth>(f, load_bytes(d, from + 2 * i), shift, to + i * kWidth);
    }
  }
  if (rest == 0) return;
  alignas(64) std::byte last[2 * half_padding] = {}, result[2 * half_padding];
  std::memcpy(last, from + 2 * whole, 2 * rest);
  auto shift = hn::Set(d, shifts[kByColumn ? whole : whole / group]);
  if constexpr (kByColumn) shift = hn::LoadU(d, shifts + whole);  // behind the last there is room
  round_halves<kWidth>(f, load_bytes(d, last), shift, result);
  std::memcpy(to + whole * kWidth, result, rest * kWidth);
}

static inline HalfLoop half_loop_for(std::size_t width, bool by_column) {
  if (width == 1) return by_column ? half_loop<1, true> : half_loop<1, false>;
  return by_column ? half_loop<2, true> : half_loop<2, false>;
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
