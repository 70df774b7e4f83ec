#pragma once
// The functions of bit_operators.hpp.

#include <soma/neuroncore/engines/bit_operators.hpp>

#include <soma/neuroncore/engines/alu.hpp>
#include <soma/neuroncore/memory/on_chip_memory.hpp>
#include <soma/neuroncore/memory/partition_io.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore::detail {

SOMA_INLINE void read_bits(const OnChipMemory& memory, const Tile& tile, std::size_t p,
                           std::vector<std::uint32_t>& to) {
  read_codes(memory, tile, p, to.data());
  const std::size_t width = size_of(tile.dtype());
  if (width == 4) return;
  const auto* bytes = reinterpret_cast<const std::byte*>(to.data());
  for (std::size_t i = to.size(); i-- > 0;) {
    std::uint32_t wide = 0;
    std::memcpy(&wide, bytes + i * width, width);
    to[i] = wide;
  }
}

SOMA_INLINE void write_bits(const OnChipMemory& memory, const Tile& tile, std::size_t p,
                            std::vector<std::uint32_t>& from) {
  const std::size_t width = size_of(tile.dtype());
  if (width != 4) {
    auto* bytes = reinterpret_cast<std::byte*>(from.data());
    const std::uint32_t kept = tile.dtype() == DType::boolean ? 1 : 0xFFFFFFFF;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const std::uint32_t wide = from[i] & kept;
      std::memcpy(bytes + i * width, &wide, width);
    }
  }
  write_codes(memory, tile, p, from.data());
}

SOMA_INLINE std::uint32_t bits(const CallSite& call, Alu op, std::uint32_t a, std::uint32_t b,
                               std::size_t width) {
  if ((op == Alu::left_shift || op == Alu::right_shift) && b >= width)
    undisclosed(call, "count", std::to_string(b),
                "a shift by less than " + std::to_string(width) + " bits");
  switch (op) {
    case Alu::bitwise_and:
      return a & b;
    case Alu::bitwise_or:
      return a | b;
    case Alu::bitwise_xor:
      return a ^ b;
    case Alu::left_shift:
      return a << b;
    case Alu::right_shift:
      return a >> b;
    default:
      return ~a;
  }
}

SOMA_INLINE std::uint32_t bits_of_constant(const CallSite& call, std::string_view operand,
                                           const ScalarOperand& constant) {
  if (constant.integer) return static_cast<std::uint32_t>(*constant.integer);
  const float value = constant.value;
  if (!(value >= -0x1p31f && value < 0x1p32f) ||
      static_cast<float>(static_cast<std::int64_t>(value)) != value ||
      (static_cast<std::int64_t>(value) == 0 && !is_zero(value)))
    rule_broken(call, operand, text_of(value), "an integer of 32 bits");
  return static_cast<std::uint32_t>(static_cast<std::int64_t>(value));
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail
