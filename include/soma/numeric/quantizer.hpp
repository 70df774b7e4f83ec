#pragma once
// Quantizer: format, rounding, scale and rotation of one role of a training run. OwnRounding: a
// rounding in plain code. Accumulation: how the products of a sum are added.

#include <soma/numeric/formats.hpp>
#include <soma/numeric/rounding.hpp>
#include <soma/numeric/scaling.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace SOMA_NAMESPACE {

// A rounding in plain code, for operands of products (the gemm_ roles of a Precision): for formats
// that FloatFormat cannot describe, such as one with a table of values. It runs on the host only,
// on all threads, and costs what the function costs and a pass over the operand.
struct OwnRounding {
  // Part of the run's identity: another name is another training. The text must outlive all copies,
  // as a literal does.
  std::string_view name{};
  // Replaces each value by its rounded one. What becomes of a value must depend on this value
  // alone, because threads cut operands into spans; it must not throw.
  void (*function)(std::span<float> values) = nullptr;

  constexpr bool defined() const { return function != nullptr; }
  friend constexpr bool operator==(const OwnRounding&, const OwnRounding&) = default;
};

// A Hadamard matrix by which both operands of a product are multiplied along its sum before they
// are converted: the product stays the same, and a number far beyond its neighbours is shared out
// among `size` of them. What is left over at the end of the sum, or of a shard of it, is not rotated.
struct Rotation {
  enum class Signs : std::uint8_t {
    fixed,  // none change
    drawn,  // by a function of seed, layer, product and step: other ones in each step
  };
  std::uint8_t size = 0;  // 16, 32, 64 or 128; 0: no rotation
  Signs signs = Signs::fixed;

  friend constexpr bool operator==(const Rotation&, const Rotation&) = default;
};
constexpr std::string_view to_string(Rotation::Signs signs) {
  return signs == Rotation::Signs::drawn ? "drawn" : "fixed";
}

// The conversion of numbers to a narrow format.
struct Quantizer {
  FloatFormat format = formats::fp32;
  Rounding rounding{};
  Scaling scaling{};
  Rotation rotation{};  // operands of products only
  // If defined, it takes the place of the rounding to `format`, whose largest number still gives
  // the scale, and the limit of scaled values. Scales of a tensor only.
  OwnRounding own{};

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
