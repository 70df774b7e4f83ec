#pragma once
// Properties of operators, and operands that are not tiles.

#include <soma/neuroncore/engines/engine_kernels.hpp>
#include <soma/neuroncore/memory/partition_io.hpp>
#include <soma/neuroncore/memory/tile.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore {

constexpr bool is_bitwise(Alu op) { return op >= Alu::bitwise_and; }
constexpr bool is_unary(Alu op) {
  return op == Alu::absolute || op == Alu::logical_not || op == Alu::rsqrt || op == Alu::invert;
}
// True for operators that only the GpSimd engine has.
constexpr bool is_gpsimd_only(Alu op) { return op == Alu::power || op == Alu::rsqrt; }
// True for operators that may fold into an accumulator of the Vector engine, and over any dimension
// (tensor_reduce).
constexpr bool is_reduction(Alu op) {
  return op == Alu::add || op == Alu::multiply || op == Alu::maximum || op == Alu::minimum;
}
constexpr bool is_fold(Alu op) {
  return is_reduction(op) || op == Alu::logical_and || op == Alu::logical_or ||
         op == Alu::logical_xor || op == Alu::bitwise_and || op == Alu::bitwise_or ||
         op == Alu::bitwise_xor;
}
// The start value of a running result.
constexpr float identity_of(Alu op) {
  return op == Alu::multiply || op == Alu::logical_and ? 1.0f
         : op == Alu::maximum                          ? -HUGE_VALF
         : op == Alu::minimum                          ? HUGE_VALF
                                                       : 0.0f;
}
constexpr std::string_view to_string(Alu op) {
  constexpr std::string_view names[] = {
      "none",       "add",         "subtract",    "multiply",      "maximum",
      "minimum",    "equal",       "not_equal",   "greater_equal", "greater",
      "less_equal", "less",        "logical_and", "logical_or",    "logical_xor",
      "absolute",   "logical_not", "power",       "rsqrt",         "bitwise_and",
      "bitwise_or", "bitwise_xor", "invert",      "left_shift",    "right_shift"};
  return names[static_cast<std::size_t>(op)];
}

// Tests the bits, because a host that flushes subnormal numbers compares them as equal to zero.
bool is_zero(float value);

// A number in an instruction. Integers keep their 32 bits for operators on bits; all other
// operators compute in fp32 and refuse integers that are not exact there.
struct Constant {
  float value = 0;
  std::optional<std::int64_t> integer{};  // where it was given as one

  Constant() = default;
  template <std::convertible_to<float> Number>
  Constant(Number number, SourceLine source = calling_line())  // NOLINT: each is a constant
      : value(static_cast<float>(number)) {
    if constexpr (std::integral<Number>) {
      const auto wide = static_cast<double>(number);
      if (wide < -0x1p31 || wide >= 0x1p32)
        rule_broken({"Constant", source}, "number", std::to_string(number),
                    "an integer of 32 bits");
      integer = static_cast<std::int64_t>(number);
    }
  }
};

// An operand of tensor_scalar and similar instructions: a constant, or a tile [P, 1] with one
// number for each partition.
struct ScalarOperand : Constant {
  using Constant::Constant;
  ScalarOperand() = default;
  ScalarOperand(const Tile& column) : tile(column) {}  // NOLINT: an operand, too

  Tile tile{};
};

struct ScalarOptions {
  bool reverse0 = false, reverse1 = false;  // s0 op0 data; s1 op1 (...)
  Rounded rounded{};
};

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/engines/impl/alu.ipp>
#endif
