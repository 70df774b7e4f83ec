#pragma once
// What may differ between CPUs.

#include <cstdint>
#include <string_view>

namespace soma {

// fast: bf16 instructions may be used where this CPU is faster with them. portable: the same bits
// on every target with fused multiply-add; refused on a target without.
enum class Math : std::uint8_t { fast, portable };

// How products of bf16 numbers are formed where matrices are multiplied.
enum class Bf16Products : std::uint8_t {
  widened,          // to fp32 while packing, then fp32 multiply-adds: portable bits
  dot_instruction,  // the CPU's bf16 dot product
  tiles,            // the CPU's bf16 tile product (AMX)
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

struct Bf16Choice {
  Bf16Products products = Bf16Products::widened;
  std::string_view reason{};
};

}  // namespace soma
