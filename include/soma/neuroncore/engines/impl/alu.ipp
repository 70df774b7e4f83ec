#pragma once
// The functions of alu.hpp.

#include <soma/neuroncore/engines/alu.hpp>

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

SOMA_INLINE bool is_zero(float value) { return std::bit_cast<std::uint32_t>(value) << 1 == 0; }

}  // namespace SOMA_NAMESPACE::neuroncore
