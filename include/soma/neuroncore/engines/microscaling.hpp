#pragma once
// Microscaling on the core: the layout of packed codes and their scales in SBUF (guide of v4, and
// nki.isa nc_matmul_mx, quantize_mx).
//
// A view packed4() of [P, N x 4] has a scale for each 8 partitions and each pack. Each quadrant of
// 32 partitions holds the scales of its own codes, in four adjacent partitions from 0, 4, 8 or 12
// on. So a tile of scales begins in the quadrant of the codes, at one of those four places, and
// reaches the scales of the last quadrant: [P - 28, N] at least; for 32 partitions, [4, N].

#include <soma/neuroncore/core_state.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore::detail {

inline constexpr std::size_t quadrant_partitions = 32, group_partitions = 8, pack_size = 4;
inline constexpr std::size_t quadrant_scales = quadrant_partitions / group_partitions;

// The scales in each quadrant; undefined where there are no codes.
using ScaleTiles = std::array<Tile, 4>;
ScaleTiles scale_tiles(const Tile& scales, const Tile& codes);

// Error neuroncore.rule: no view packed4() of fp8 e4m3fn or e5m2, or no whole quadrants.
void check_packed(const CallSite& call, const Operand& codes);
// Error neuroncore.rule: no tile of e8m0 or uint8 where the scales of these codes lie.
void check_scales(CoreState& core, const CallSite& call, const Operand& scales, const Tile& codes);

// 2^(code - 127); 255: NaN.
double scale_of_code(std::uint8_t code);
// The codes of one partition of a tile of scales, and the same written.
std::vector<std::uint8_t> read_scales(CoreState& core, const Tile& scales, std::size_t p);
void write_scales(CoreState& core, const Tile& scales, std::size_t p,
                  const std::vector<std::uint8_t>& codes);

// Calls run(row, numbers) for each row of the contraction: numbers are codes times scales, one for
// each pack, and row p * 4 + i is element i of the packs of partition p.
template <class Run>
void for_mx_rows(CoreState& core, const Tile& codes, const Tile& scales, const Run& run) {
  const std::size_t packs = codes.dimension(0).size;
  const PartitionReader reader(core.kernels, core.memory_of(codes), codes);
  const ScaleTiles tiles = scale_tiles(scales, codes);
  std::vector<float> values(packs * pack_size);
  std::vector<double> factors(packs), numbers(packs);
  for (std::size_t p = 0; p < codes.partitions(); ++p) {
    reader.copy(p, values.data());
    if (p % group_partitions == 0) {
      const std::vector<std::uint8_t> row = read_scales(core, tiles[p / quadrant_partitions],
                                                        p % quadrant_partitions / group_partitions);
      for (std::size_t j = 0; j < packs; ++j) factors[j] = scale_of_code(row[j]);
    }
    for (std::size_t i = 0; i < pack_size; ++i) {
      for (std::size_t j = 0; j < packs; ++j)
        numbers[j] = static_cast<double>(values[j * pack_size + i]) * factors[j];
      run(p * pack_size + i, numbers.data());
    }
  }
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/engines/impl/microscaling.ipp>
#endif
