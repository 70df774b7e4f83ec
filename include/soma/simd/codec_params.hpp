#pragma once
// The parameters of a format and a rounding for the vector loops, computed once per call: every
// mask, shift and special code as a plain integer. The loops take any format this way, so a format
// chosen at run time is as fast as a named one.

#include <soma/numeric/codec.hpp>

#include <cstdint>

namespace SOMA_NAMESPACE {

struct CodecParams {
  int width;          // bytes of a stored code
  int storage_shift;  // FloatFormat::storage_shift
  int mantissa_bits;
  int bias;  // one more than the format's where it has no zero: codes are then counted from
             // `lowest_code`
  std::uint32_t lowest_code;  // 0, or 1 << mantissa_bits where the format has no zero
  std::uint32_t sign_mask;    // 0: unsigned
  int sign_shift;             // from bit 31 down to the sign bit
  std::uint32_t magnitude_mask;
  std::uint32_t max_finite_code;
  std::uint32_t infinity_code;  // the code of an infinite magnitude, without sign
  std::uint32_t overflow_positive,
      overflow_negative;  // the codes of a finite overflow, without sign
  std::uint32_t nan_base, nan_payload_mask,
      nan_quiet;              // NaN: base | (payload & mask, or quiet if that is 0)
  std::uint32_t random_mask;  // which bits of a random word count
  bool half_words;            // true: random words have 16 bits
  bool fp32_layout;           // the fields are fp32's own, cut off below: decoding is a shift
  bool plain_fp32;            // fp32 itself: nothing to do
  bool plain_bf16;            // bf16 itself: nearest-even is an addition and a shift
  bool deep;  // no zero, or normal numbers among fp32's subnormals, which need normalising

  bool rare;  // one of the things below, or no zero: the common loop leaves them out
  bool flush_subnormals, nan_is_negative_zero, is_signed, nan_is_max;
  RoundingMode mode;
  DrawMapping draws;  // of stochastic rounding
};

constexpr CodecParams make_codec_params(const FloatFormat& f, const Rounding& rounding = {}) {
  CodecParams p{};
  p.width = f.bytes();
  p.storage_shift = f.storage_shift();
  p.mantissa_bits = f.mantissa_bits;
  p.bias = f.bias + (f.has_zero() ? 0 : 1);
  p.lowest_code = f.has_zero() ? 0 : std::uint32_t{1} << f.mantissa_bits;
  p.sign_mask = f.sign_mask();
  p.sign_shift = 31 - (f.exponent_bits + f.mantissa_bits);
  p.magnitude_mask = f.magnitude_mask();
  p.max_finite_code = f.max_finite_code();

  // If NaN has the code of negative zero, its sign bit belongs to the code and not to the
  // magnitude; later code adds it.
  p.infinity_code = detail::overflow_code(f, false);
  p.overflow_positive =
      detail::overflow_stops_at_max(rounding.mode, false) ? f.max_finite_code() : p.infinity_code;
  p.overflow_negative =
      detail::overflow_stops_at_max(rounding.mode, true) ? f.max_finite_code() : p.infinity_code;
  if (f.specials == Specials::ieee) {
    p.nan_base = f.infinity_code();
    p.nan_payload_mask = f.mantissa_mask();
    p.nan_quiet = std::uint32_t{1} << (f.mantissa_bits - 1);
  } else {
    p.nan_base = f.has_nan() ? f.quiet_nan_code() : f.max_finite_code();
  }

  const int bits = random_bits(rounding, f);
  p.random_mask = ~std::uint32_t{0} << (32 - bits);
  p.half_words = bits <= 16;
  p.mode = rounding.mode;
  p.draws = rounding.draws;

  p.flush_subnormals = f.subnormals == Subnormals::flushed;
  p.nan_is_negative_zero = f.specials == Specials::nan_negative_zero;
  p.is_signed = f.is_signed;
  p.nan_is_max = !f.has_nan();
  p.rare =
      p.flush_subnormals || p.nan_is_negative_zero || !f.is_signed || p.nan_is_max || !f.has_zero();
  p.fp32_layout = f.exponent_bits == 8 && f.bias == 127 && f.specials == Specials::ieee &&
                  f.is_signed && !p.rare;
  const bool ieee_overflow = p.fp32_layout && f.resolved_overflow() == Overflow::infinity;
  p.plain_fp32 = ieee_overflow && f.mantissa_bits == 23;
  p.plain_bf16 = ieee_overflow && f.mantissa_bits == 7;
  p.deep = p.bias > 127 || !f.has_zero();
  return p;
}

}  // namespace SOMA_NAMESPACE
