#pragma once
// The description of an instruction for everybody except its engine: its opcode, its lane, the
// memory that it touched, the fields that decide its cost, and the earlier instructions for which
// it waited.

#include <soma/neuroncore/engines/engine_kernels.hpp>
#include <soma/neuroncore/source_line.hpp>
#include <soma/tensor/dtype.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore {

enum class Engine : std::uint8_t { tensor, vector, scalar, gpsimd, dma };
inline constexpr std::size_t engine_count = 5;

constexpr std::string_view to_string(Engine engine) {
  constexpr std::string_view names[] = {"tensor", "vector", "scalar", "gpsimd", "dma"};
  return names[static_cast<std::size_t>(engine)];
}

enum class Opcode : std::uint8_t {
  matmul,
  transpose,
  activation,
  tensor_tensor,
  tensor_scalar,
  tensor_scalar_reduce,
  tensor_scalar_cumulative,
  scalar_tensor_tensor,
  tensor_reduce,
  tensor_tensor_scan,
  select,
  copy_predicated,
  copy,
  memset,
  bn_stats,
  bn_aggr,
  reciprocal,
  dropout,
  rng,
  max8,
  find_index8,
  match_replace8,
  stream_shuffle,
  iota,
  affine_select,
  local_gather,
  n_gather,
  partition_reduce,
  partition_broadcast,
  sequence_bounds,
  dma_copy,
  dma_transpose,
  dma_gather,
  dma_scatter,
  dma_sum,
  custom_operator,
  matmul_mx,
  quantize_mx,
  exponential,
  activate2,
  rand2,
  range_select,
  nonzero_with_count,
};
inline constexpr std::size_t opcode_count =
    static_cast<std::size_t>(Opcode::nonzero_with_count) + 1;

constexpr std::string_view to_string(Opcode opcode) {
  constexpr std::array<std::string_view, opcode_count> names{
      "matmul",
      "transpose",
      "activation",
      "tensor_tensor",
      "tensor_scalar",
      "tensor_scalar_reduce",
      "tensor_scalar_cumulative",
      "scalar_tensor_tensor",
      "tensor_reduce",
      "tensor_tensor_scan",
      "select",
      "copy_predicated",
      "copy",
      "memset",
      "bn_stats",
      "bn_aggr",
      "reciprocal",
      "dropout",
      "rng",
      "max8",
      "find_index8",
      "match_replace8",
      "stream_shuffle",
      "iota",
      "affine_select",
      "local_gather",
      "n_gather",
      "partition_reduce",
      "partition_broadcast",
      "sequence_bounds",
      "dma_copy",
      "dma_transpose",
      "dma_gather",
      "dma_scatter",
      "dma_sum",
      "custom_operator",
      "matmul_mx",
      "quantize_mx",
      "exponential",
      "activate2",
      "rand2",
      "range_select",
      "nonzero_with_count",
  };
  return names[static_cast<std::size_t>(opcode)];
}

// An instruction stream that runs in program order: an engine, or one DMA queue.
using Lane = std::uint8_t;
inline constexpr std::size_t dma_lanes = 16;
inline constexpr std::size_t lane_count = 4 + dma_lanes;

constexpr Lane lane_of(Engine engine, std::size_t queue = 0) {
  return static_cast<Lane>(static_cast<std::size_t>(engine) + queue);
}
constexpr Engine engine_of(Lane lane) { return lane < 4 ? static_cast<Engine>(lane) : Engine::dma; }

// Instruction `number` (from 1) of a lane.
struct Position {
  Lane lane = 0;
  std::uint32_t number = 0;

  friend bool operator==(const Position&, const Position&) = default;
};

// The fields that decide the cost of an instruction (by the formulas of the vendor's instruction
// reference of SDK 2.26).
struct CostFields {
  std::uint32_t partitions = 0;
  // Elements a partition: of the result, of the moving tile, or of the reduced or searched tile.
  std::uint32_t free_size = 0;
  std::uint32_t stationary = 0;   // free size of the stationary tile of a matmul
  std::uint32_t contraction = 0;  // for a matmul: partitions of both operands
  std::uint32_t rows = 1;         // for a matmul: of the contraction, that a partition feeds
  std::uint8_t tensors = 0;       // tiles that are read
  std::uint8_t psum_tensors = 0;  // tiles in PSUM that are read
  // The types of the tiles that are read, in the order of the instruction's operands (of the first
  // three if there are more), and of the result.
  std::array<DType, 3> inputs{};
  DType result = DType::fp32;
  std::array<Alu, 2> operators{};  // op0 and op1, or the only one
  bool zero = false;               // a memset to 0
  bool transposes = false;         // the array only moves data: no work of the model
  bool unit_stride = true;    // neighbours of the innermost dimensions are neighbours in memory
  bool narrow_stride = true;  // innermost strides of at most 16 bytes
  std::uint32_t piece = 0;    // elements side by side of a local_gather
  std::uint64_t bytes = 0;    // moved between memories
  std::uint32_t buffers = 0;  // for a transfer: pieces side by side
  double nanoseconds = 0;     // for a custom operator: predicted by the model of its processors

  friend bool operator==(const CostFields&, const CostFields&) = default;
};

// The direction of a transfer; none: no transfer.
enum class Direction : std::uint8_t { none, load, store, on_chip, in_hbm };

// The bytes of device memory that an instruction reads or writes: from `first` to `last`, of which
// it takes those of a pattern. Equal patterns at equal places are equal bytes; 0 is no pattern that
// can be compared. Addresses differ from run to run, so they do not tell two records apart.
struct HbmPlace {
  std::uintptr_t first = 0, last = 0;
  std::uint64_t pattern = 0;
  bool writes = false;

  friend constexpr bool operator==(const HbmPlace&, const HbmPlace&) { return true; }
};

struct Instruction {
  Opcode opcode = Opcode::copy;
  Position position;
  CostFields cost;
  // The last instruction of each lane that had to end before this one began; 0: none. Barriers and
  // semaphore waits are included. Its own lane needs no entry.
  std::array<std::uint32_t, lane_count> after{};
  // Bit `lane`: it waits for that lane only to write where the lane read or wrote before, and reads
  // nothing of it. Another place to write would spare the wait.
  std::uint32_t reuses = 0;
  // True if it reads a result of the previous instruction of its own lane. Accumulating in PSUM is
  // no such read.
  bool reads_previous = false;
  bool uses_sbuf = false, uses_psum = false;  // memories that it reads or writes
  bool result_in_psum = false;
  std::uint64_t psum_banks = 0;  // bit `bank` of PSUM, modulo 64: it reads or writes that one
  Direction direction = Direction::none;
  HbmPlace hbm;
  std::uint32_t call = 0;    // for an operator: RecordNames::calls[call - 1]; 0: none
  std::uint32_t region = 0;  // RecordNames::regions[region - 1], the innermost; 0: none
  std::uint32_t sbuf_used = 0, psum_used = 0;  // bytes a partition, in use when it was issued
  SourceLine source;

  friend bool operator==(const Instruction&, const Instruction&) = default;
};

}  // namespace SOMA_NAMESPACE::neuroncore
