#pragma once
// Scaling: the scale that goes with a narrow format, as a value. One scale serves a scaling block
// (a tensor, a row, a block).
//
// The stored scale determines everything: elements are encode(x * inverse) with inverse = 1 /
// scale, and read as decode(code) * scale. Each of these operations is rounded once by IEEE
// nearest-even, so bits do not depend on the target. A finite product beyond the format's largest
// number (a rounding of scale or inverse, a delayed scale that is behind, the MX rule) saturates,
// whatever FloatFormat::overflow says, because a scale exists to avoid overflow. Infinities and NaN
// keep their rules.

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

enum class Granularity : std::uint8_t {
  tensor,
  row,
  block_1x128,
  block_128x128,
  group_32,
  group_16,
  block_16x16,
  block_32x32,
};
enum class ScaleFormat : std::uint8_t {
  fp32,
  power_of_two,
  mx,    // an e8m0 exponent (OCP Microscaling), by a ScaleRule
  e4m3,  // an fp8_e4m3fn number, and one fp32 scale of the tensor over all (NVFP4)
};
// How the exponent of an e8m0 scale follows from the amax of its scaling block; emax is the
// exponent of the format's largest number.
enum class ScaleRule : std::uint8_t {
  floor,  // floor(log2(amax)) - emax: OCP Microscaling 1.0, section 6.3; may saturate
  up,     // ceil(log2(amax / largest number)): nothing saturates
  even,   // as floor, of amax rounded to the format's mantissa
  trn3,   // floor(log2(amax)) - emax + 1: the accelerator's; nothing saturates
};
enum class ScalePolicy : std::uint8_t {
  none,     // no scale
  current,  // from the amax of the values being encoded
  delayed,  // given, from the amax history of earlier steps (AmaxHistory)
};

constexpr std::string_view to_string(Granularity granularity) {
  switch (granularity) {
    case Granularity::tensor:
      return "tensor";
    case Granularity::row:
      return "row";
    case Granularity::block_1x128:
      return "1x128";
    case Granularity::block_128x128:
      return "128x128";
    case Granularity::group_32:
      return "32";
    case Granularity::group_16:
      return "16";
    case Granularity::block_16x16:
      return "16x16";
    case Granularity::block_32x32:
      return "32x32";
  }
  return "unknown";
}
constexpr std::string_view to_string(ScaleFormat format) {
  switch (format) {
    case ScaleFormat::fp32:
      return "fp32";
    case ScaleFormat::power_of_two:
      return "power_of_two";
    case ScaleFormat::mx:
      return "e8m0";
    case ScaleFormat::e4m3:
      return "e4m3";
  }
  return "unknown";
}
constexpr std::string_view to_string(ScaleRule rule) {
  switch (rule) {
    case ScaleRule::floor:
      return "floor";
    case ScaleRule::up:
      return "up";
    case ScaleRule::even:
      return "even";
    case ScaleRule::trn3:
      return "trn3";
  }
  return "unknown";
}
constexpr std::string_view to_string(ScalePolicy policy) {
  switch (policy) {
    case ScalePolicy::none:
      return "none";
    case ScalePolicy::current:
      return "current";
    case ScalePolicy::delayed:
      return "delayed";
  }
  return "unknown";
}

struct Scaling {
  ScalePolicy policy = ScalePolicy::none;
  Granularity granularity = Granularity::tensor;
  ScaleFormat format = ScaleFormat::fp32;
  ScaleRule rule = ScaleRule::floor;  // for ScaleFormat::mx
  int history = 16;                   // delayed: how many amax values are remembered, 1 to 4096
  int margin = 0;  // headroom: the scale is 2^margin times larger than needed, 0 to 64

  // True if a scale is made of all numbers of a tensor at each conversion: parts of a batch have
  // other scales than the whole batch.
  constexpr bool reads_whole_tensor() const {
    return policy == ScalePolicy::current &&
           (granularity == Granularity::tensor || format == ScaleFormat::e4m3);
  }

  friend constexpr bool operator==(const Scaling&, const Scaling&) = default;
};

// Rows and columns that one scale covers; 0 means all of them.
struct ScalingBlock {
  std::size_t rows, columns;
};

constexpr ScalingBlock scaling_block(Granularity granularity) {
  switch (granularity) {
    case Granularity::tensor:
      return {0, 0};
    case Granularity::row:
      return {1, 0};
    case Granularity::block_1x128:
      return {1, 128};
    case Granularity::block_128x128:
      return {128, 128};
    case Granularity::group_32:
      return {1, 32};
    case Granularity::group_16:
      return {1, 16};
    case Granularity::block_16x16:
      return {16, 16};
    case Granularity::block_32x32:
      return {32, 32};
  }
  return {0, 0};
}

// True if a scaling block is that of the transposed matrix too: a matrix and its transpose then
// have the same numbers.
constexpr bool is_square(Granularity granularity) {
  const ScalingBlock block = scaling_block(granularity);
  return block.rows == block.columns;
}

// The number of scales of a matrix: `rows` x `columns`, row-major. A tensor and a row have one
// scale even if they are empty; blocks have none if there are no elements to cover.
struct ScaleGrid {
  std::size_t rows, columns;
  constexpr std::size_t size() const { return rows * columns; }
};

constexpr ScaleGrid scale_grid(Granularity granularity, std::size_t rows, std::size_t columns) {
  const ScalingBlock g = scaling_block(granularity);
  const auto parts = [](std::size_t extent, std::size_t each) {
    return each == 0 ? 1 : extent / each + (extent % each != 0 ? 1 : 0);
  };
  return {parts(rows, g.rows), parts(columns, g.columns)};
}

// Error scaling.invalid where a field is out of its range.
const Scaling& validate(const Scaling& scaling, std::string_view operation);

namespace detail {

// floor(log2(value)) of a positive finite number.
constexpr int exponent_of(float value) { return unpack(value).magnitude.exponent + 52; }

// The limit of scales for a format with that largest number: no product of both is infinite, so
// every stored code reads back as a finite number, in each rounding. At most 2^126.
constexpr int largest_scale_exponent(float largest) {
  return (std::min)(126, 127 - exponent_of(largest));
}
constexpr float largest_scale(float largest) {
  constexpr double most = (std::numeric_limits<float>::max)();
  const double exact = (std::min)(most / static_cast<double>(largest), 0x1p126);
  const auto scale = static_cast<float>(exact);
  if (static_cast<double>(scale) * static_cast<double>(largest) <= most) return scale;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scale) - 1);
}

// The fraction bits, of fp32's 23, above which an amax needs the next power of two. Otherwise
// the exponent is floor(log2(amax)) - top.
struct PowerRule {
  std::uint32_t fraction;
  int top;
};
constexpr PowerRule power_rule(const Scaling& scaling, const FloatFormat& format, float largest) {
  const bool up = scaling.format == ScaleFormat::power_of_two || scaling.rule == ScaleRule::up;
  if (up)
    return {static_cast<std::uint32_t>(unpack(largest).magnitude.significand >> 29) & 0x7FFFFFu,
            exponent_of(largest)};
  if (scaling.rule == ScaleRule::even && format.mantissa_bits < 23)
    return {0x7FFFFFu - (std::uint32_t{1} << (22 - format.mantissa_bits)), format.max_exponent()};
  return {0x7FFFFFu, format.max_exponent() - (scaling.rule == ScaleRule::trn3 ? 1 : 0)};
}

}  // namespace detail

// True if a scaling block that has a number which is not finite gets the scale NaN, so that all of
// it reads NaN: with the scales of Microscaling and NVFP4, and for formats without a NaN, in which
// it would become finite.
constexpr bool has_nan_scales(const Scaling& scaling, const FloatFormat& format) {
  return scaling.format == ScaleFormat::mx || scaling.format == ScaleFormat::e4m3 ||
         format.specials == Specials::none;
}

// The fp32 scale of a whole tensor with e4m3 scales, whose largest magnitude is `amax`: amax / (448
// * largest number of the format), from 2^-117 to 2^117; 1 if amax is 0 or not finite.
float tensor_scale_for(const FloatFormat& format, float amax);

// The scale for a scaling block whose largest finite magnitude is `amax`. An infinite amax stands
// for a number that is not finite: the scale is NaN where has_nan_scales(); otherwise such numbers
// are not counted.
//   fp32          amax / largest * 2^margin, rounded to nearest
//   power_of_two  the smallest power of two that brings amax to the largest number or below, times
//                 2^margin
//   mx            the power of two of the ScaleRule, times 2^margin. Numbers above the largest
//                 number times the scale saturate.
//   e4m3          amax / largest / tensor_scale * 2^margin, rounded to fp32, then to fp8_e4m3fn,
//                 from 2^-9 to 448. Elements are encode(x / (scale * tensor_scale)).
// fp32 and power_of_two scales lie between 2^-126 and 2^126, so that the scale and its inverse are
// normal numbers, and `largest` times the scale is finite: magnitudes close to 2^128 saturate; they
// are 1 if amax is 0. Scales of mx lie between 2^-127, which is also that of zeros, and 2^127: a
// number that rounds up to 2^128 reads as infinity.
float scale_for(const Scaling& scaling, const FloatFormat& format, float amax,
                float tensor_scale = 1);

// The amax values of the last `scaling.history` steps for one scaling block, and the scale that
// they give: the delayed policy. The history starts empty; the scale is 1 until an amax is known.
class AmaxHistory {
 public:
  explicit AmaxHistory(const Scaling& scaling, const FloatFormat& format);

  // Adds the amax of the step that has ended. A full window drops its oldest value.
  void push(float amax);

  // The largest finite magnitude in the history; 0 if there is none.
  float amax() const;
  // True if scale() is based on data. Zeros and NaN give no information: the next values may have
  // any magnitude.
  bool known() const;
  float scale() const;

  // The values of the history, oldest first: pushed into an empty history they give the same
  // history.
  std::vector<float> values() const;

 private:
  Scaling scaling_;
  FloatFormat format_;
  std::vector<float> values_;
  std::size_t next_ = 0;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/numeric/impl/scaling.ipp>
#endif
