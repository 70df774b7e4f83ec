#pragma once
// Costs: the time that an instruction occupies its engine, and a buffer its DMA engine.
//
// Unless a comment says otherwise, the formulas are those of the vendor's instruction reference of
// SDK 2.26 (nki/api/nki/isa, the last release that prints them). They give initiation intervals:
// the time until the engine's next instruction can begin. N: elements a partition. Where the
// reference prints no formula, the comment says "undisclosed" and the figure is a parameter of this
// model.

#include <soma/neuroncore/machine.hpp>
#include <soma/neuroncore/order/instruction.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::neuroncore {

// The start-up cycles of GpSimd instructions that the reference prices as 150 + ...
inline constexpr double gpsimd_start_cycles = 150;

constexpr double ghz_of(const Machine& machine, Engine engine) {
  switch (engine) {
    case Engine::tensor:
      return machine.tensor_ghz;
    case Engine::vector:
      return machine.vector_ghz;
    case Engine::scalar:
      return machine.scalar_ghz;
    case Engine::gpsimd:
      return machine.gpsimd_ghz;
    case Engine::dma:
      break;  // has no published clock; its times are in ns
  }
  return 1;
}

// fp32 operands pass the array four times. tf32 operands pass it once.
constexpr bool is_fp32_product(const Instruction& instruction) {
  return instruction.opcode == Opcode::matmul &&
         (instruction.cost.inputs[0] == DType::fp32 || instruction.cost.inputs[1] == DType::fp32);
}

namespace detail {

// The Vector engine reads two tiles in one cycle an element if one of them lies in PSUM, or if all
// types are bf16, the operator is simple and the elements are adjacent in memory.
constexpr bool is_single_rate(const CostFields& cost) {
  if (cost.psum_tensors == 1) return true;
  const Alu op = cost.operators[0];
  return cost.psum_tensors == 0 && cost.inputs[0] == DType::bf16 && cost.inputs[1] == DType::bf16 &&
         cost.result == DType::bf16 && cost.unit_stride &&
         (op == Alu::add || op == Alu::multiply || op == Alu::subtract);
}

// Cycles an element of a local_gather. The reference prints a division by this number, which would
// make wider pieces slower; here it is a factor. `piece`: adjacent elements.
constexpr double gather_cycles(double piece, double element_bytes) {
  const double bytes = 4 * piece;
  return (28 + bytes) / bytes / (std::min)(4 / element_bytes, piece);
}

// How many elements of a copy, or of an operation with a scalar, an engine passes in a cycle.
constexpr double fast_rate(const CostFields& cost, bool result_in_psum, const FastRate& fast) {
  if ((fast.dtypes & dtype_bit(cost.inputs[0])) == 0 || (fast.dtypes & dtype_bit(cost.result)) == 0)
    return 1;
  const bool in_psum = cost.psum_tensors != 0 || result_in_psum;
  if (in_psum && cost.psum_tensors != 0 && result_in_psum) return 1;
  if (in_psum) return cost.unit_stride ? fast.other : 1;
  return cost.unit_stride ? fast.contiguous : fast.other;
}

// How much faster than by v2's formula the Vector engine works on two 16-bit tiles in SBUF.
constexpr double pair_rate(const CostFields& cost, const Machine& machine) {
  const auto narrow = [](DType dtype) { return is_floating(dtype) && size_of(dtype) == 2; };
  const bool fast = cost.psum_tensors == 0 && narrow(cost.inputs[0]) && narrow(cost.inputs[1]) &&
                    narrow(cost.result);
  return fast ? machine.vector_pair_rate : 1;
}

constexpr double vector_cycles(const Instruction& instruction, const Machine& machine) {
  const CostFields& cost = instruction.cost;
  const double n = cost.free_size, least = machine.issue_cycles;
  switch (instruction.opcode) {
    case Opcode::tensor_tensor:
      return (is_single_rate(cost) ? n : 2 * n) / pair_rate(cost, machine);
    case Opcode::copy:
    case Opcode::tensor_scalar:
      return n / fast_rate(cost, instruction.result_in_psum, machine.rules.vector_fast);
    case Opcode::exponential:
      return n / machine.exponential_rate;
    case Opcode::quantize_mx:
      return n / machine.quantize_rate;
    case Opcode::rand2:
      return n / machine.random_rate;
    case Opcode::scalar_tensor_tensor:
      return cost.inputs[0] == DType::bf16 && cost.inputs[1] == DType::bf16 &&
                     cost.operators[0] == Alu::subtract && cost.operators[1] == Alu::multiply &&
                     cost.free_size % 2 == 0
                 ? n
                 : 2 * n;
    case Opcode::tensor_tensor_scan:
    case Opcode::tensor_scalar_cumulative:  // undisclosed; like the scan
      return 2 * n;
    case Opcode::tensor_scalar_reduce:  // and reads the accumulators
      return (std::max)(least, n) + least;
    case Opcode::tensor_reduce:
      return cost.inputs[0] == DType::bf16 && cost.result == DType::bf16 &&
                     (cost.operators[0] == Alu::add || cost.operators[0] == Alu::maximum)
                 ? n / 2
                 : n;
    case Opcode::copy_predicated:
    case Opcode::select:  // undisclosed; like copy_predicated
      return cost.psum_tensors == 1 ? n : 2 * n;
    case Opcode::memset:
      return cost.zero && (cost.result == DType::bf16 || cost.result == DType::fp16) ? n / 2 : n;
    case Opcode::reciprocal:
      return 8 * n;
    case Opcode::bn_aggr:
      return 13 * n / 3;
    default:  // one cycle an element; of rng and range_select undisclosed
      return n;
  }
}

constexpr double gpsimd_cycles(const Instruction& instruction) {
  const CostFields& cost = instruction.cost;
  const double n = cost.free_size;
  switch (instruction.opcode) {
    case Opcode::iota:
    case Opcode::affine_select:
      return gpsimd_start_cycles + n;
    case Opcode::local_gather:
      return gpsimd_start_cycles + n * gather_cycles((std::max)(cost.piece, 1u),
                                                     static_cast<double>(size_of(cost.result)));
    case Opcode::n_gather:  // undisclosed but for its groups of 512; as a local_gather of one
      return static_cast<double>((cost.free_size + 511) / 512) * (gpsimd_start_cycles + 512 * 8);
    case Opcode::partition_reduce:  // undisclosed; eight processors with 16 partitions each
      return gpsimd_start_cycles + cost.partitions * n / 16;
    case Opcode::sequence_bounds:     // undisclosed; two passes
    case Opcode::nonzero_with_count:  // undisclosed; two passes
    case Opcode::tensor_tensor:       // undisclosed; two inputs through one port
      return gpsimd_start_cycles + 2 * n;
    case Opcode::partition_broadcast:  // undisclosed; one pass
      return gpsimd_start_cycles + n;
    case Opcode::tensor_scalar:  // rsqrt: "four times slower than the Scalar engine"
      return 4 * n;
    default:
      return n;
  }
}

}  // namespace detail

// The cycles of an engine's instruction, in the engine's clock; 0 for a transfer. A kernel of a
// custom operator takes the time that the model of its processors counted.
constexpr double cycles_of(const Instruction& instruction, const Machine& machine) {
  const CostFields& cost = instruction.cost;
  if (instruction.opcode == Opcode::custom_operator) return cost.nanoseconds * machine.gpsimd_ghz;
  const double least = machine.issue_cycles, n = cost.free_size;
  double cycles = 0;
  switch (engine_of(instruction.position.lane)) {
    case Engine::tensor:
      // A transpose is a product with the identity: its source's partitions move.
      cycles = instruction.opcode == Opcode::transpose
                   ? (std::max)((std::min)(least, static_cast<double>(cost.partitions)), n)
                   : (std::max)((std::min)(least, static_cast<double>(cost.stationary)), n);
      if (is_fp32_product(instruction)) cycles *= 4;
      break;
    case Engine::vector:
      cycles = (std::max)(least, detail::vector_cycles(instruction, machine));
      break;
    case Engine::scalar:
      cycles = n;
      if (instruction.opcode == Opcode::copy)
        cycles /= detail::fast_rate(cost, instruction.result_in_psum, machine.rules.scalar_fast);
      cycles = (std::max)(least, cycles);
      break;
    case Engine::gpsimd:
      cycles = (std::max)(least, detail::gpsimd_cycles(instruction));
      break;
    case Engine::dma:
      return 0;
  }
  // Memory interfaces run at half their rate if neighbours are more than 16 bytes apart
  // (architecture guide).
  return cost.narrow_stride ? cycles : 2 * cycles;
}

// The nanoseconds of an engine's instruction.
constexpr double interval_ns(const Instruction& instruction, const Machine& machine) {
  return cycles_of(instruction, machine) / ghz_of(machine, engine_of(instruction.position.lane));
}

// True for a transfer whose rows are chosen by indices: its descriptors cannot be written before
// the program runs (nki/deep-dives/nki-dge: on this core the GpSimd engine writes them).
constexpr bool has_run_time_rows(const Instruction& instruction) {
  return instruction.opcode == Opcode::dma_gather || instruction.opcode == Opcode::dma_scatter;
}

// The nanoseconds of the GpSimd engine for the descriptors of a transfer; 0 for rows that are known
// beforehand.
constexpr double descriptors_ns(const Instruction& instruction, const Machine& machine) {
  if (!has_run_time_rows(instruction)) return 0;
  return (machine.descriptors_start_cycles +
          machine.descriptor_cycles * instruction.cost.partitions) /
         machine.gpsimd_ghz;
}

// The nanoseconds of one buffer of a transfer on a DMA engine: the buffer's own cost, or the time
// of its bytes at the engine's rate and, for device memory, at the engine's share of that memory's
// rate.
constexpr double buffer_ns(const Instruction& instruction, const Machine& machine) {
  const CostFields& cost = instruction.cost;
  if (cost.buffers == 0) return 0;
  const double bytes = static_cast<double>(cost.bytes) / cost.buffers;
  const double share = machine.hbm_gb_per_s / static_cast<double>(machine.dma_engines);
  const double rate = instruction.direction == Direction::on_chip
                          ? machine.dma_engine_gb_per_s
                          : (std::min)(machine.dma_engine_gb_per_s, share);
  return (std::max)(machine.dma_buffer_ns, bytes / rate);
}

// The DMA engines that a transfer's buffers are dealt to, at most.
constexpr std::size_t engines_of(const Instruction& instruction, const Machine& machine) {
  const std::size_t each = machine.dma_engine_partitions, partitions = instruction.cost.partitions;
  if (each == 0 || partitions == 0) return machine.dma_engines;
  return (partitions + each - 1) / each;
}

// The operations of a product, multiplications and additions, counted as the 16-bit operations that
// the array could do in that time: fp32 operations count four times (as in the vendor's profiler),
// and products of several rows to a partition once for all of them.
constexpr double array_operations(const Instruction& instruction) {
  const CostFields& cost = instruction.cost;
  const double columns =
      instruction.opcode == Opcode::transpose ? cost.partitions : cost.stationary;
  return 2.0 * cost.contraction * columns * cost.free_size * (is_fp32_product(instruction) ? 4 : 1);
}
// Operations of the whole array in a nanosecond.
constexpr double peak_per_ns(const Machine& machine) {
  return 2.0 * static_cast<double>(machine.partitions) *
         static_cast<double>(machine.matmul_stationary_free) * machine.tensor_ghz;
}

}  // namespace SOMA_NAMESPACE::neuroncore
