#pragma once
// What may differ between CPUs.

#include <cstdint>
#include <string_view>

namespace soma {

// fast: a bf16 dot instruction may be used where this CPU is listed as faster with it. portable:
// the same bits on every target with fused multiply-add; refused on a target without.
enum class Math : std::uint8_t { fast, portable };

// How products of bf16 numbers are formed where matrices are multiplied.
enum class Bf16Products : std::uint8_t {
  widened,          // to fp32 while packing, then fp32 multiply-adds: portable bits
  dot_instruction,  // the CPU's bf16 dot product
};

struct Bf16Choice {
  Bf16Products products = Bf16Products::widened;
  std::string_view reason{};
};

}  // namespace soma
