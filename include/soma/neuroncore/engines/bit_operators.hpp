#pragma once
// Operators on the bits of integers, as they are stored: no value is converted.

#include <soma/neuroncore/engines/alu.hpp>
#include <soma/neuroncore/memory/on_chip_memory.hpp>
#include <soma/neuroncore/memory/partition_io.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore::detail {

// Elements of a partition in 32 bits each, with zeros above narrower elements.
void read_bits(const OnChipMemory& memory, const Tile& tile, std::size_t p,
               std::vector<std::uint32_t>& to);
// A boolean has one bit.
void write_bits(const OnChipMemory& memory, const Tile& tile, std::size_t p,
                std::vector<std::uint32_t>& from);

// `width`: bits of an element. Shifts fill with zeros; the result of a shift by `width` or more is
// not published.
std::uint32_t bits(const CallSite& call, Alu op, std::uint32_t a, std::uint32_t b,
                   std::size_t width);

// The bits of a constant: an integer of 32 bits.
std::uint32_t bits_of_constant(const CallSite& call, std::string_view operand,
                               const ScalarOperand& constant);

}  // namespace SOMA_NAMESPACE::neuroncore::detail

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/engines/impl/bit_operators.ipp>
#endif
