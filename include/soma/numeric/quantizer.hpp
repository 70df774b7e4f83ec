#pragma once
// Quantizer: format, rounding and scale of one role of a training run. Accumulation: how the
// products of a sum are added.

#include <soma/numeric/formats.hpp>
#include <soma/numeric/rounding.hpp>
#include <soma/numeric/scaling.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

// The conversion of numbers to a narrow format.
struct Quantizer {
  FloatFormat format = formats::fp32;
  Rounding rounding{};
  Scaling scaling{};

  friend constexpr bool operator==(const Quantizer&, const Quantizer&) = default;
};

// How a matrix product adds up. The hardware adds in fp32, whatever chunk and promote are; other
// formats are for experiments, and slow.
//
// Within each segment of the sum a running sum starts from 0. Products join it in ascending order,
// one fp32 fused multiply-add each; after every `chunk` of them it is rounded to `format`, to
// nearest even, beyond the largest number by the format's rule. After every `promote` products,
// counted from the segment's start, the running sum joins a total by one fp32 addition and starts
// again from 0. The remainder at the end of a segment or before a promotion is a shorter chunk. The
// segment's sum is the total, or the running sum where promote is 0.
struct Accumulation {
  static constexpr std::uint64_t most_products = std::uint64_t{1} << 32;

  FloatFormat format = formats::fp32;  // the running sum's format: one with a sign and a zero
  std::size_t chunk = 1;               // from 1 to most_products
  std::size_t promote = 0;             // up to most_products; 0: never

  // True if sums are added as the hardware adds them.
  constexpr bool plain() const { return format == formats::fp32; }
  friend constexpr bool operator==(const Accumulation&, const Accumulation&) = default;
};

}  // namespace SOMA_NAMESPACE
