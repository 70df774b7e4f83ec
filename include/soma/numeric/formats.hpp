#pragma once
// The ready-made formats, their names, and the validation of formats that come from outside.
//
// Sources: IEEE 754-2019 (fp32, fp16); the accelerator's cFP8 family e3m4, e4m3, e5m2, which the
// compiler stacks know as Float8E3M4, Float8E4M3, Float8E5M2 (LLVM APFloat, StableHLO RFC 2486,
// ml_dtypes); OCP 8-bit Floating Point Specification 1.0 (e4m3fn, e5m2); "8-bit Numerical Formats
// for Deep Neural Networks", arXiv 2206.02915 (the fnuz pair); OCP Microscaling Formats (MX)
// Specification 1.0 (e8m0, e2m3, e3m2, e2m1).

#include <soma/base/error.hpp>
#include <soma/numeric/float_format.hpp>

#include <array>
#include <iosfwd>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

namespace formats {

inline constexpr FloatFormat fp32{};
inline constexpr FloatFormat tf32{.exponent_bits = 8, .mantissa_bits = 10, .bias = 127};
inline constexpr FloatFormat fp16{.exponent_bits = 5, .mantissa_bits = 10, .bias = 15};
inline constexpr FloatFormat bf16{.exponent_bits = 8, .mantissa_bits = 7, .bias = 127};

// cFP8. Largest values 15.5, 240, 57344. The hardware's behaviour on overflow is undisclosed; the
// default here is infinity.
inline constexpr FloatFormat fp8_e3m4{.exponent_bits = 3, .mantissa_bits = 4, .bias = 3};
inline constexpr FloatFormat fp8_e4m3{.exponent_bits = 4, .mantissa_bits = 3, .bias = 7};
inline constexpr FloatFormat fp8_e5m2{.exponent_bits = 5, .mantissa_bits = 2, .bias = 15};

// OCP e4m3 (largest value 448). OCP e5m2 is the same record as cFP8's.
inline constexpr FloatFormat fp8_e4m3fn{
    .exponent_bits = 4, .mantissa_bits = 3, .bias = 7, .specials = Specials::nan_all_ones};
inline constexpr FloatFormat fp8_e4m3fnuz{
    .exponent_bits = 4, .mantissa_bits = 3, .bias = 8, .specials = Specials::nan_negative_zero};
inline constexpr FloatFormat fp8_e5m2fnuz{
    .exponent_bits = 5, .mantissa_bits = 2, .bias = 16, .specials = Specials::nan_negative_zero};

// Scales of the MX formats: powers of two from 2^-127 to 2^127. Zero encodes to the smallest power,
// negative numbers to NaN.
inline constexpr FloatFormat e8m0{.exponent_bits = 8,
                                  .mantissa_bits = 0,
                                  .bias = 127,
                                  .specials = Specials::nan_all_ones,
                                  .is_signed = false,
                                  .subnormals = Subnormals::absent};

inline constexpr FloatFormat fp6_e2m3{
    .exponent_bits = 2, .mantissa_bits = 3, .bias = 1, .specials = Specials::none};
inline constexpr FloatFormat fp6_e3m2{
    .exponent_bits = 3, .mantissa_bits = 2, .bias = 3, .specials = Specials::none};
inline constexpr FloatFormat fp4_e2m1{
    .exponent_bits = 2, .mantissa_bits = 1, .bias = 1, .specials = Specials::none};

}  // namespace formats

struct NamedFormat {
  std::string_view name;
  FloatFormat format;
};

// All ready-made formats, widest first. A format with two names is listed under the shorter one.
inline constexpr std::array named_formats{
    NamedFormat{"fp32", formats::fp32},
    NamedFormat{"tf32", formats::tf32},
    NamedFormat{"fp16", formats::fp16},
    NamedFormat{"bf16", formats::bf16},
    NamedFormat{"fp8_e3m4", formats::fp8_e3m4},
    NamedFormat{"fp8_e4m3", formats::fp8_e4m3},
    NamedFormat{"fp8_e5m2", formats::fp8_e5m2},
    NamedFormat{"fp8_e4m3fn", formats::fp8_e4m3fn},
    NamedFormat{"fp8_e4m3fnuz", formats::fp8_e4m3fnuz},
    NamedFormat{"fp8_e5m2fnuz", formats::fp8_e5m2fnuz},
    NamedFormat{"e8m0", formats::e8m0},
    NamedFormat{"fp6_e2m3", formats::fp6_e2m3},
    NamedFormat{"fp6_e3m2", formats::fp6_e3m2},
    NamedFormat{"fp4_e2m1", formats::fp4_e2m1},
};

// "bf16" for a ready-made record, otherwise the record spelt out: "1-4-3 bias 9 ieee"
// (sign-exponent-mantissa bits), followed by what differs from the defaults.
std::string to_string(const FloatFormat& format);

// The ready-made format of that name. Error format.unknown_name lists the known ones.
const FloatFormat& find_format(std::string_view name);

// Returns the record if it describes a format. Error format.impossible names the reason otherwise.
const FloatFormat& validate(const FloatFormat& format, std::string_view operation);

// Writes to_string(format). A template, so that this header does not include the stream library.
template <class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out,
                                             const FloatFormat& format) {
  return out << std::string_view(to_string(format));
}

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/numeric/impl/formats.ipp>
#endif
