#pragma once
// A Precision as text, and the validation of a Precision that comes from outside.

#include <soma/base/error.hpp>
#include <soma/numeric/precision.hpp>

#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

// "fp8_e4m3fn, current 1x128 power_of_two scale": the differences from fp32, rounded to nearest,
// without a scale. A rounding of one's own is shown by its name: fp32 by "log8".
std::string to_string(const Quantizer& quantizer);

std::string to_string(const Accumulation& accumulation);

// One line: the name, and each role that is not plain fp32. Two precisions that compute differently
// have different texts.
std::string to_string(const Precision& precision);

namespace detail {

// True if tensors can have elements of this format.
constexpr bool stored_format(const FloatFormat& format) {
  for (const FloatFormat& known :
       {formats::fp32, formats::tf32, formats::fp16, formats::bf16, formats::fp8_e3m4,
        formats::fp8_e4m3, formats::fp8_e5m2, formats::fp8_e4m3fn, formats::fp8_e4m3fnuz,
        formats::fp8_e5m2fnuz})
    if (format == known) return true;
  return false;
}

}  // namespace detail

// Returns `precision` if training supports it. Error train.precision names the role otherwise.
const Precision& validate(const Precision& precision, std::string_view operation);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/numeric/impl/precision_text.ipp>
#endif
