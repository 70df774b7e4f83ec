#pragma once
// The functions of microscaling.hpp.

#include <soma/neuroncore/engines/microscaling.hpp>

#include <soma/neuroncore/faults.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore::detail {

SOMA_INLINE ScaleTiles scale_tiles(const Tile& scales, const Tile& codes) {
  ScaleTiles tiles;
  for (std::size_t q = 0; q < codes.partitions() / quadrant_partitions; ++q)
    tiles[q] = scales.rows(q * quadrant_partitions, q * quadrant_partitions + quadrant_scales, {});
  return tiles;
}

SOMA_INLINE void check_packed(const CallSite& call, const Operand& codes) {
  const Tile& tile = codes.tile;
  if (tile.dtype() != DType::fp8_e4m3fn && tile.dtype() != DType::fp8_e5m2)
    layout_broken(call, codes.text(), tile.describe(), "fp8_e4m3fn or fp8_e5m2");
  if (tile.rank() != 2 || tile.dimension(1).size != pack_size || tile.dimension(1).stride != 1)
    layout_broken(call, codes.text(), tile.describe(), "packs of four: Tile::packed4()");
  if (tile.partitions() % quadrant_partitions != 0)
    layout_broken(call, codes.text(), std::to_string(tile.partitions()) + " partitions",
                  "a multiple of 32: groups of 8 fill quadrants");
}

SOMA_INLINE void check_scales(CoreState& core, const CallSite& call, const Operand& scales,
                              const Tile& codes) {
  core.check_transfer(call, scales);
  const Tile& tile = scales.tile;
  CoreState::check_memory(call, scales, Memory::sbuf, "MX");
  if (tile.dtype() != DType::e8m0 && tile.dtype() != DType::uint8)
    layout_broken(call, scales.text(), tile.describe(), "e8m0 or uint8");
  const std::size_t packs = codes.dimension(0).size;
  if (tile.free_size() != packs)
    layout_broken(call, scales.text(), tile.describe(),
                  std::to_string(packs) + " scales a partition, one for each pack");
  const std::size_t begin = codes.first_partition(), first = tile.first_partition();
  const bool placed = first >= begin && first - begin <= 12 && (first - begin) % 4 == 0;
  if (!placed)
    layout_broken(call, scales.text(), "scales from partition " + std::to_string(first) + " on",
                  "0, 4, 8 or 12 behind partition " + std::to_string(begin) +
                      ", where the codes begin: in their quadrant");
  const std::size_t least = codes.partitions() - quadrant_partitions + quadrant_scales;
  if (tile.partitions() < least)
    layout_broken(call, scales.text(), std::to_string(tile.partitions()) + " partitions",
                  "at least " + std::to_string(least) + ", to the scales of the last quadrant");
}

SOMA_INLINE double scale_of_code(std::uint8_t code) {
  return code == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
}

SOMA_INLINE std::vector<std::uint8_t> read_scales(CoreState& core, const Tile& scales,
                                                  std::size_t p) {
  std::vector<std::uint8_t> codes(scales.free_size());
  if (scales.held() != DType::fp32) {
    read_codes(core.memory_of(scales), scales, p, codes.data());
    return codes;
  }
  std::vector<std::uint32_t> wide(codes.size());  // 2^-127 has the exponent field 0
  read_codes(core.memory_of(scales), scales, p, wide.data());
  for (std::size_t j = 0; j < codes.size(); ++j)
    codes[j] = static_cast<std::uint8_t>(wide[j] >> 23 & 0xFF);
  return codes;
}

SOMA_INLINE void write_scales(CoreState& core, const Tile& scales, std::size_t p,
                              const std::vector<std::uint8_t>& codes) {
  if (scales.held() != DType::fp32)
    return write_codes(core.memory_of(scales), scales, p, codes.data());
  std::vector<float> wide(codes.size());
  for (std::size_t j = 0; j < codes.size(); ++j)
    wide[j] = static_cast<float>(scale_of_code(codes[j]));
  write_codes(core.memory_of(scales), scales, p, wide.data());
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail
