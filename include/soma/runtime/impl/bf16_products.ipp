#pragma once
// The functions of bf16_products.hpp.

#include <soma/runtime/bf16_products.hpp>

#include <soma/runtime/cpu.hpp>
#include <soma/runtime/math.hpp>

#include <string_view>

namespace SOMA_NAMESPACE {

SOMA_INLINE Bf16Choice bf16_choice(const CpuIdentity& cpu, bool has_loop) {
  if (cpu.bf16_tiles && has_loop)
    return {Bf16Products::tiles, "AMX: sixteen times the fp32 multiply-add rate"};
  struct Listed {
    std::string_view vendor;
    int family, first_model, last_model;
    Bf16Products products;
    std::string_view reason;
  };
  static constexpr Listed listed[] = {
      {"GenuineIntel", 6, 143, 143, Bf16Products::widened,
       "Sapphire Rapids: same core as Emerald Rapids, whose dot instruction has half the fp32 "
       "rate"},
      {"GenuineIntel", 6, 207, 207, Bf16Products::widened,
       "Emerald Rapids: the dot instruction was measured at half the fp32 multiply-add rate"},
      {"AuthenticAMD", 25, 16, 31, Bf16Products::dot_instruction,
       "Zen 4: the dot instruction was measured at twice the fp32 multiply-add rate"},
      {"AuthenticAMD", 25, 96, 127, Bf16Products::dot_instruction,
       "Zen 4: same core as where the dot instruction has twice the fp32 rate"},
      {"AuthenticAMD", 25, 160, 175, Bf16Products::dot_instruction,
       "Zen 4c: same core as where the dot instruction has twice the fp32 rate"},
      {"AuthenticAMD", 26, 0, 255, Bf16Products::dot_instruction,
       "Zen 5: the dot instruction was measured at twice the fp32 multiply-add rate"},
  };
  for (const Listed& entry : listed) {
    if (entry.vendor != cpu.vendor || entry.family != cpu.family || cpu.model < entry.first_model ||
        entry.last_model < cpu.model)
      continue;
    if (entry.products == Bf16Products::dot_instruction && !cpu.bf16_dot)
      return {Bf16Products::widened, "the machine hides this CPU's bf16 dot instruction"};
    if (entry.products == Bf16Products::dot_instruction && !has_loop)
      return {Bf16Products::widened, "this target has no bf16 dot instruction"};
    return {entry.products, entry.reason};
  }
  if (!cpu.bf16_dot) return {Bf16Products::widened, "this CPU has no bf16 dot instruction"};
  return {Bf16Products::widened,
          "this CPU is not in the list of parts where the dot instruction was measured"};
}

}  // namespace SOMA_NAMESPACE
