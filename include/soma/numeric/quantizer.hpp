#pragma once
// Quantizer: format, rounding and scale together, as one role of a training run has them.
// Accumulation: how the products of a sum are added up.

#include <soma/numeric/formats.hpp>
#include <soma/numeric/rounding.hpp>
#include <soma/numeric/scaling.hpp>

#include <cstddef>
#include <cstdint>

namespace soma {

// How numbers become those of a narrow format.
struct Quantizer {
  FloatFormat format = formats::fp32;
  Rounding rounding{};
  Scaling scaling{};

  friend constexpr bool operator==(const Quantizer&, const Quantizer&) = default;
};

// How a matrix product adds up. The hardware's way is fp32, whatever chunk and promote are; other
// formats are for study, and slow.
//
// Within each segment of the sum a running sum starts from 0. Products join it in ascending order,
// one fp32 fused multiply-add each; after every `chunk` of them it is rounded to `format`, to
// nearest even, beyond the largest number by the format's rule. After every `promote` products,
// counted from the segment's start, the running sum joins a total by one fp32 addition and starts
// again from 0. What is left at the end of a segment or before a promotion is a chunk too, only
// shorter. The segment's sum is the total, or the running sum where promote is 0.
struct Accumulation {
  static constexpr std::uint64_t most_products = std::uint64_t{1} << 32;

  FloatFormat format = formats::fp32;  // of the running sum: one with a sign and a zero
  std::size_t chunk = 1;               // from 1 to most_products
  std::size_t promote = 0;             // up to most_products; 0: never

  // Whether it is the hardware's.
  constexpr bool plain() const { return format == formats::fp32; }
  friend constexpr bool operator==(const Accumulation&, const Accumulation&) = default;
};

}  // namespace soma
