#pragma once
// What may differ between CPUs.

#include <cstdint>
#include <string_view>

namespace soma {

// fast: bf16 instructions may be used where this CPU is faster with them, for fp32 products, too.
// portable: the same bits on every target with fused multiply-add; refused on a target without.
enum class Math : std::uint8_t { fast, portable };

// How products of bf16 numbers are formed where matrices are multiplied.
enum class Bf16Products : std::uint8_t {
  widened,          // to fp32 while packing, then fp32 multiply-adds: portable bits
  dot_instruction,  // the CPU's bf16 dot product
  tiles,            // the CPU's bf16 tile product (AMX)
};

// How all other products are formed there.
enum class Fp32Products : std::uint8_t {
  multiply_add,  // one fused multiply-add each: portable bits
  split_tiles,   // each number as three bf16 numbers, six of whose products tiles add
};

constexpr std::string_view to_string(Bf16Products products) {
  switch (products) {
    case Bf16Products::dot_instruction:
      return "dot_instruction";
    case Bf16Products::tiles:
      return "tiles";
    case Bf16Products::widened:
      break;
  }
  return "widened";
}

inline constexpr int split_products = 6;  // of bf16 numbers, for one

// The one that goes with the other. Tiles multiply bf16 numbers sixteen times as fast as fp32
// multiply-adds by construction: six of them for each product leave more than twice the rate.
constexpr Fp32Products fp32_products(Bf16Products products) {
  return products == Bf16Products::tiles ? Fp32Products::split_tiles : Fp32Products::multiply_add;
}

constexpr std::string_view to_string(Fp32Products products) {
  return products == Fp32Products::split_tiles ? "split_tiles" : "multiply_add";
}

struct Bf16Choice {
  Bf16Products products = Bf16Products::widened;
  std::string_view reason{};
};

}  // namespace soma
