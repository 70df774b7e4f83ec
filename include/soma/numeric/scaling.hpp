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

enum class Granularity : std::uint8_t { tensor, row, block_1x128, block_128x128, group_32 };
enum class ScaleFormat : std::uint8_t {
  fp32,
  power_of_two,
  mx,  // an e8m0 exponent by the rule of OCP Microscaling
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
  int history = 16;  // delayed: how many amax values are remembered, 1 to 4096
  int margin = 0;    // headroom: the scale is 2^margin times larger than needed, 0 to 64

  friend constexpr bool operator==(const Scaling&, const Scaling&) = default;
};

// Columns and rows that one scale covers; 0 means all of them.
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
  }
  return {0, 0};
}

// The number of scales of a matrix: `rows` x `columns`, row-major. A tensor has one scale even if
// it is empty; rows and blocks have none if there are no elements to cover.
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

}  // namespace detail

// The scale for a scaling block whose largest finite magnitude is `amax`; 1 if `amax` is 0. The
// scale lies between 2^-126 and 2^126, so that the scale and its inverse are normal numbers, and
// `largest` times the scale is finite: magnitudes close to 2^128 saturate.
//   fp32          amax / largest * 2^margin, rounded to nearest
//   power_of_two  the smallest power of two that brings amax to the largest number or below, times
//                 2^margin
//   mx            2^(floor(log2(amax)) - emax + margin), the rule of OCP Microscaling 1.0 section
//                 6.3; values of up to twice 2^emax then meet a smaller largest number and saturate
float scale_for(const Scaling& scaling, const FloatFormat& format, float amax);

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
