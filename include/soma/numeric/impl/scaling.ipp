#pragma once
// The functions of scaling.hpp.

#include <soma/numeric/scaling.hpp>

#include <soma/base/error.hpp>
#include <soma/numeric/codec.hpp>
#include <soma/numeric/formats.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE const Scaling& validate(const Scaling& scaling, std::string_view operation) {
  if (scaling.history < 1 || scaling.history > 4096)
    fail(error_id::bad_scaling, operation, "scaling.history", std::to_string(scaling.history),
         "1 to 4096");
  if (scaling.margin < 0 || scaling.margin > 64)
    fail(error_id::bad_scaling, operation, "scaling.margin", std::to_string(scaling.margin),
         "0 to 64");
  return scaling;
}

SOMA_INLINE float tensor_scale_for(const FloatFormat& format, float amax) {
  if (!(amax > 0 && amax <= (std::numeric_limits<float>::max)())) return 1.0f;
  const double largest = 448.0 * static_cast<double>(decode(format, format.max_finite_code()));
  return static_cast<float>((std::clamp)(static_cast<double>(amax) / largest, 0x1p-117, 0x1p117));
}

SOMA_INLINE float scale_for(const Scaling& scaling, const FloatFormat& format, float amax,
                            float tensor_scale) {
  if (has_nan_scales(scaling, format) && !(amax <= (std::numeric_limits<float>::max)()))
    return std::numeric_limits<float>::quiet_NaN();
  const float largest = decode(format, format.max_finite_code());
  if (scaling.format == ScaleFormat::e4m3) {
    const auto margin = static_cast<double>(detail::two_to(scaling.margin));
    const double exact = static_cast<double>(amax) /
                         (static_cast<double>(largest) * static_cast<double>(tensor_scale)) *
                         margin;
    const float wanted = static_cast<float>((std::clamp)(exact, 0x1p-9, 448.0));
    return decode(formats::fp8_e4m3fn, encode(formats::fp8_e4m3fn, wanted));
  }
  if (!(amax > 0)) return scaling.format == ScaleFormat::mx ? 0x1p-127f : 1.0f;
  if (scaling.format == ScaleFormat::fp32) {
    // The quotient of two fp32 numbers in fp64 is never within 2^-53 of a tie of fp32, so the
    // second rounding is exact.
    const auto margin = static_cast<double>(detail::two_to(scaling.margin));
    const double scale = static_cast<double>(amax) / static_cast<double>(largest) * margin;
    return (std::min)(static_cast<float>((std::clamp)(scale, 0x1p-126, 0x1p126)),
                      detail::largest_scale(largest));
  }
  const detail::PowerRule rule = detail::power_rule(scaling, format, largest);
  int exponent = detail::exponent_of(amax) - rule.top + scaling.margin;
  const auto fraction =
      static_cast<std::uint32_t>(unpack(amax).magnitude.significand >> 29) & 0x7FFFFFu;
  if (fraction > rule.fraction) ++exponent;
  const bool mx = scaling.format == ScaleFormat::mx;
  return detail::two_to(
      (std::clamp)(exponent, mx ? -127 : -126, mx ? 127 : detail::largest_scale_exponent(largest)));
}

SOMA_INLINE AmaxHistory::AmaxHistory(const Scaling& scaling, const FloatFormat& format)
    : scaling_(validate(scaling, "AmaxHistory")), format_(validate(format, "AmaxHistory")) {
  values_.reserve(static_cast<std::size_t>(scaling.history));
}

SOMA_INLINE void AmaxHistory::push(float amax) {
  const auto window = static_cast<std::size_t>(scaling_.history);
  if (values_.size() < window)
    values_.push_back(amax);
  else
    values_[next_ % window] = amax;
  ++next_;
}

SOMA_INLINE float AmaxHistory::amax() const {
  float largest = 0;
  for (const float value : values_)
    if (value <= (std::numeric_limits<float>::max)()) largest = (std::max)(largest, value);
  return largest;
}

SOMA_INLINE bool AmaxHistory::known() const { return amax() > 0; }

SOMA_INLINE float AmaxHistory::scale() const {
  return known() ? scale_for(scaling_, format_, amax()) : 1.0f;
}

SOMA_INLINE std::vector<float> AmaxHistory::values() const {
  std::vector<float> result;
  const std::size_t first =
      values_.size() < static_cast<std::size_t>(scaling_.history) ? 0 : next_ % values_.size();
  for (std::size_t i = 0; i < values_.size(); ++i)
    result.push_back(values_[(first + i) % values_.size()]);
  return result;
}

}  // namespace SOMA_NAMESPACE
