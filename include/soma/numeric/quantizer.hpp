#pragma once
// Quantizer: format, rounding and scale together, as one role of a training run has them.
// Accumulation: how the products of a sum are added up.

#include <soma/numeric/formats.hpp>
#include <soma/numeric/rounding.hpp>
#include <soma/numeric/scaling.hpp>

#include <cstddef>

namespace soma {

// How numbers become those of a narrow format.
struct Quantizer {
  FloatFormat format = formats::fp32;
  Rounding rounding{};
  Scaling scaling{};

  friend constexpr bool operator==(const Quantizer&, const Quantizer&) = default;
};

// How a matrix product adds up. The hardware's way is fp32; others are for study, and slow.
struct Accumulation {
  FloatFormat format = formats::fp32;  // of the running sum, which is rounded to nearest even
  std::size_t chunk = 1;    // products that are added in fp32 between two roundings, from 1
  std::size_t promote = 0;  // products after which the sum joins an fp32 total; 0: none

  // Whether it is the hardware's.
  constexpr bool plain() const { return format == formats::fp32; }
  friend constexpr bool operator==(const Accumulation&, const Accumulation&) = default;
};

}  // namespace soma
