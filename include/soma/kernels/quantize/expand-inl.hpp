// Codes and scales back to numbers, as products read them.

#if defined(SOMA_KERNELS_QUANTIZE_EXPAND_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_QUANTIZE_EXPAND_INL_HPP
#undef SOMA_KERNELS_QUANTIZE_EXPAND_INL_HPP
#else
#define SOMA_KERNELS_QUANTIZE_EXPAND_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/quantize/args.hpp>
#include <soma/kernels/quantize/code_bits-inl.hpp>
#include <soma/kernels/quantize/round_bf16-inl.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The bf16 numbers of a vector of codes that are not special; shift: as of round_halves(). `most`
// becomes the largest code without sign.
HWY_INLINE HalfVector expand_halves(const HalfFormat& f, HalfVector code, HalfVector shift,
                                    HalfVector& most) {
  const Halves d;
  const auto set = [&](int value) HWY_ATTR { return hn::Set(d, static_cast<std::int16_t>(value)); };
  const int sign_bit = 0x8000 >> f.sign_shift;
  const auto sign = hn::ShiftLeftSame(hn::And(code, set(sign_bit)), f.sign_shift);
  const auto magnitude = hn::And(code, set(sign_bit - 1));
  most = hn::Max(most, magnitude);
  auto number = hn::ShiftLeftSame(hn::Add(magnitude, set(f.code_offset)), f.discarded);
  const auto low = hn::Lt(magnitude, set(f.steps));
  if (!hn::AllFalse(d, low)) {
    auto few = hn::Zero(d);
    for (int i = 0; i + 1 < f.steps; ++i)
      few = hn::Max(few, hn::And(hn::VecFromMask(d, hn::Gt(magnitude, set(i))), set(f.value[i])));
    number = hn::IfThenElse(low, few, number);
  }
  number = hn::IfThenElseZero(hn::Gt(number, hn::Zero(d)), hn::Add(number, shift));
  return hn::Or(number, sign);
}

// Calls expand(codes, to) for the last codes of a run, fewer than a vector, with room for a vector.
template <class Expand>
HWY_INLINE void expand_rest(const std::byte* codes, std::size_t count, std::byte* to,
                            const Expand& expand) {
  if (count == 0) return;
  alignas(64) std::byte last[half_padding] = {}, result[2 * half_padding];
  std::memcpy(last, codes, count);
  expand(last, result);
  std::memcpy(to, result, 2 * count);
}

// false: a code was an infinity or NaN; then the written numbers are wrong.
template <bool kByColumn>
HWY_NOINLINE HWY_MAYBE_UNUSED static bool expand_loop(const HalfFormat& format,
                                                      const std::byte* codes, std::size_t count,
                                                      const std::int16_t* shifts, std::size_t group,
                                                      std::byte* to) {
  const Halves d;
  const hn::Rebind<std::uint8_t, Halves> narrow;
  const HalfFormat f = format;
  const std::size_t lanes = hn::Lanes(d), whole = count / lanes * lanes;
  const std::size_t run = kByColumn ? count : group;
  auto most = hn::Zero(d);
  const auto expand = [&](const std::byte* from, HalfVector shift, std::byte* place) HWY_ATTR {
    const auto code = hn::PromoteTo(d, load_bytes(narrow, from));
    store_bytes(d, expand_halves(f, code, shift, most), place);
  };
  for (std::size_t begin = 0, g = 0; begin < whole; begin += run, ++g) {
    auto shift = hn::Set(d, shifts[g]);
    const std::size_t end = (std::min)(begin + run, whole);
    for (std::size_t i = begin; i < end; i += lanes) {
      if constexpr (kByColumn) shift = hn::LoadU(d, shifts + i);
      expand(codes + i, shift, to + 2 * i);
    }
  }
  expand_rest(codes + whole, count - whole, to + 2 * whole,
              [&](const std::byte* from, std::byte* place) HWY_ATTR {
                auto shift = hn::Set(d, shifts[kByColumn ? whole : whole / group]);
                if constexpr (kByColumn) shift = hn::LoadU(d, shifts + whole);
                expand(from, shift, place);
              });
  return hn::AllFalse(d, hn::Gt(most, hn::Set(d, f.largest_code)));
}

#if HWY_TARGET != HWY_SCALAR
// Half a vector of bf16 numbers times factors, where bf16 holds the products.
template <class Numbers>
HWY_INLINE Numbers times_factors(Numbers numbers, const float* factors) {
  const hn::DFromV<Numbers> half;
  const hn::Rebind<std::int32_t, decltype(half)> wide;
  const hn::RebindToFloat<decltype(wide)> df;
  const auto values = hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(wide, numbers)));
  const auto products = hn::Mul(values, hn::LoadU(df, factors));
  return hn::DemoteTo(half, hn::ShiftRight<16>(hn::BitCast(wide, products)));
}
#endif

// As expand_loop(), for scales that are no powers of two: a finite factor for each code, and
// readable ones behind the last.
HWY_NOINLINE HWY_MAYBE_UNUSED static bool expand_by_factors(const HalfFormat& format,
                                                            const std::byte* codes,
                                                            std::size_t count, const float* factors,
                                                            std::byte* to) {
#if HWY_TARGET == HWY_SCALAR
  (void)format, (void)codes, (void)count, (void)factors, (void)to;
  return false;
#else
  const Halves d;
  const hn::Half<Halves> half;
  const hn::Rebind<std::uint8_t, Halves> narrow;
  const HalfFormat f = format;
  const std::size_t lanes = hn::Lanes(d), whole = count / lanes * lanes;
  auto most = hn::Zero(d);
  const auto expand = [&](const std::byte* from, const float* by, std::byte* place) HWY_ATTR {
    const auto code = hn::PromoteTo(d, load_bytes(narrow, from));
    const auto numbers = expand_halves(f, code, hn::Zero(d), most);
    const auto low = times_factors(hn::LowerHalf(half, numbers), by);
    const auto high = times_factors(hn::UpperHalf(half, numbers), by + lanes / 2);
    store_bytes(d, hn::Combine(d, high, low), place);
  };
  for (std::size_t i = 0; i < whole; i += lanes) expand(codes + i, factors + i, to + 2 * i);
  expand_rest(codes + whole, count - whole, to + 2 * whole,
              [&](const std::byte* from, std::byte* place)
                  HWY_ATTR { expand(from, factors + whole, place); });
  return hn::AllFalse(d, hn::Gt(most, hn::Set(d, f.largest_code)));
#endif
}

namespace {  // internal linkage: units with other flags have their own

class ExpandPass {
 public:
  explicit ExpandPass(const ExpandArgs& args)
      : args_(args),
        codec_(make_codec_params(args.format)),
        carrier_(stored_codec(args.y.dtype)),
        half_(make_half_format(args.format)),
        width_(size_of(args.y.dtype)),
        group_(args.group_columns == 0 ? args.columns : args.group_columns),
        run_(group_ == 1           ? wide_run
             : group_ >= row_chunk ? row_chunk
                                   : row_chunk / group_ * group_) {
    half_.usable = half_.usable && args.y.dtype == DType::bf16;
    by_factors_ = half_.usable && args.scale == StoredScale::e4m3;
    half_.usable = half_.usable && args.scale == StoredScale::exponent &&
                   (group_ == 1 || group_ % half_padding == 0 || group_ == args.columns);
    std::fill_n(shifts_, (std::min)(run_, args.columns) + half_padding, std::int16_t{0});
    std::fill_n(scales_, (std::min)(run_, args.columns) + half_padding, 0.0f);
    std::fill_n(factors_, row_chunk + half_padding, 0.0f);
    for (int i = 0; args.scale == StoredScale::e4m3 && i < 256; ++i)
      e4m3_[i] = decode(formats::fp8_e4m3fn, static_cast<std::uint32_t>(i));
  }

  void run() {
    const std::size_t step = args_.group_rows == 0 ? args_.rows : args_.group_rows;
    std::size_t at = 0;  // among scales
    for (std::size_t row = 0; row < args_.rows; row += step, at += args_.group_stride)
      for (std::size_t column = 0; column < args_.columns; column += run_) {
        const std::size_t count = (std::min)(run_, args_.columns - column);
        const bool quick = take_scales(at + column / group_, (count + group_ - 1) / group_);
        const std::size_t end = (std::min)(row + step, args_.rows);
        for (std::size_t r = row; r < end; ++r)
          for (std::size_t i = 0; i < count; i += row_chunk)
            expand(r, column + i, (std::min)(row_chunk, count - i), group_ == 1 ? i : 0, quick);
      }
  }

 private:
  // Returns false if a scale is not for expand_loop() or expand_by_factors().
  bool take_scales(std::size_t first, std::size_t count) {
    if (half_.usable) {
      bool ordinary = true;
      for (std::size_t i = 0; i < count; ++i) {
        const int exponent = std::to_integer<int>(args_.scales[first + i]) - 127;
        ordinary = ordinary && exponent <= half_.most_exponent && exponent >= -half_.most_exponent;
        shifts_[i] = static_cast<std::int16_t>(exponent * 128);
      }
      if (ordinary) return true;
    }
    bool finite = true;
    for (std::size_t i = 0; i < count; ++i) {
      scales_[i] = scale_of(first + i);
      finite = finite && scales_[i] == scales_[i];
    }
    for (std::size_t i = 0; by_factors_ && group_ != 1 && i < count; ++i)
      std::fill_n(factors_ + i * group_, (std::min)(group_, row_chunk - i * group_), scales_[i]);
    return by_factors_ && finite;
  }

  float scale_of(std::size_t i) const {
    if (args_.scale == StoredScale::fp32) {
      float scale;
      std::memcpy(&scale, args_.scales + i * sizeof scale, sizeof scale);
      return scale;
    }
    const auto byte = std::to_integer<std::uint32_t>(args_.scales[i]);
    if (args_.scale == StoredScale::e4m3) return e4m3_[byte];
    if (byte == 255) return std::numeric_limits<float>::quiet_NaN();
    return std::bit_cast<float>(byte == 0 ? 0x00400000u : byte << 23);
  }

  // `first`: the scale of the first column, among those that take_scales() took.
  void expand(std::size_t row, std::size_t column, std::size_t count, std::size_t first,
              bool quick) {
    const auto bits = static_cast<std::size_t>(args_.code_bits);
    const std::byte* codes = args_.codes + row * args_.row_stride + column * bits / 8;
    std::byte* to =
        static_cast<std::byte*>(args_.y.data) + (row * args_.y.row_stride + column) * width_;
    if (bits != 8) {
      unpack_codes(codes, count, args_.code_bits, unpacked_);
      codes = unpacked_;
    }
    const std::size_t groups = (count + group_ - 1) / group_;
    if (quick && by_factors_) {
      if (expand_by_factors(half_, codes, count, group_ == 1 ? scales_ + first : factors_, to))
        return;
    } else if (quick) {
      if (group_ == 1 ? expand_loop<true>(half_, codes, count, shifts_ + first, 1, to)
                      : expand_loop<false>(half_, codes, count, shifts_, group_, to))
        return;
      for (std::size_t g = first; g < first + groups; ++g)
        scales_[g] = soma::detail::two_to(shifts_[g] / 128);
    }
    decode_chunk(codec_, codes, count, buffers_);
    for (std::size_t i = 0; i < count; i += group_)
      if (group_ == 1)
        buffers_.values[i] *= scales_[first + i];
      else
        multiply(buffers_.values + i, (std::min)(group_, count - i), scales_[i / group_]);
    const auto* values = reinterpret_cast<const std::byte*>(buffers_.values);
    if (carrier_.plain_fp32)
      std::memcpy(to, values, count * sizeof(float));
    else
      encode_chunk(carrier_, values, count, to, {}, buffers_);
  }

  const ExpandArgs& args_;
  CodecParams codec_, carrier_;
  HalfFormat half_;
  bool by_factors_ = false;
  std::size_t width_, group_, run_;
  float e4m3_[256];
  alignas(64) std::int16_t shifts_[wide_run + half_padding];
  float scales_[wide_run + half_padding];
  float factors_[row_chunk + half_padding];  // in a run, where groups are parts of a row
  alignas(64) std::byte unpacked_[row_chunk];
  ConvertBuffers buffers_;
};

}  // namespace

static inline void expand_kernel(const ExpandArgs& args) noexcept {
  if (args.rows != 0 && args.columns != 0) ExpandPass(args).run();
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
