#pragma once
// Machine: the numbers of one core, as data. trn1() is the NeuronCore-v2 of AWS Trainium; describe
// another by changing fields of a copy.
//
// Sources are public: the pages of the AWS Neuron documentation named beside each group
// (https://awsdocs-neuron.readthedocs-hosted.com). Where nothing is published the field says
// "undisclosed" and holds a parameter of this model, not a fact.

#include <soma/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore {

constexpr std::uint32_t dtype_bit(DType dtype) {
  return std::uint32_t{1} << static_cast<unsigned>(dtype);
}

struct Machine {
  std::string_view name;

  // nki/guides/architecture/trainium_inferentia2_arch: memories
  std::size_t partitions = 0;
  std::size_t sbuf_partition_bytes = 0;  // bytes of SBUF in a partition
  std::size_t psum_banks = 0;            // banks of a partition
  std::size_t psum_bank_bytes = 0;
  std::size_t hbm_bytes = 0;   // this core's share
  double hbm_gb_per_s = 0;     // this core's share, 10^9 bytes
  std::size_t sbuf_align = 0;  // bytes; undisclosed (named, not printed)

  // nki.language.tile_size, and the limits of access patterns in the same guide
  std::size_t matmul_stationary_free = 0;  // elements
  std::size_t matmul_moving_free = 0;
  std::size_t bn_stats_free = 0;
  std::size_t sbuf_operand_free = 0;  // elements a partition of a Vector or Scalar operand
  std::size_t psum_operand_free = 0;
  std::size_t transpose_vector = 0;  // rows and columns of a Vector engine transpose

  // about-neuron/arch/neuron-hardware/neuron-core-v2: clocks
  double tensor_ghz = 0, vector_ghz = 0, scalar_ghz = 0, gpsimd_ghz = 0;

  // nki.isa of SDK 2.26: the shortest time between two instructions of an engine
  double issue_cycles = 0;
  // The further wait of an instruction that needs the result of its own engine's previous one. The
  // architecture guide: about 100 cycles; undisclosed for the Scalar engine, read off the guide's
  // chain of activations of one element (189 ns each).
  double dependence_cycles = 0, scalar_dependence_cycles = 0;
  // The cost of a wait for another engine, in cycles of the waiting engine; undisclosed.
  double semaphore_hop_cycles = 0;
  // From the start of a program to its first instruction. Undisclosed; read off three short kernels
  // with published timings: the least that their other costs leave (docs/neuroncore.md, "Anchors").
  double launch_ns = 0;
  // The GpSimd engine writes the descriptors of a transfer whose rows are chosen at run time: these
  // cycles for the transfer, and for each of its rows. Undisclosed; read off the published timings
  // of a resize, which copies the pixels of one or of ten images with each transfer.
  double descriptors_start_cycles = 0, descriptor_cycles = 0;

  // nki/get-started/about/nki-dma-overview, nki/deep-dives/nki-dma-bandwidth-guide
  std::size_t dma_engines = 0;
  std::size_t dma_queues_per_engine = 0;
  double dma_engine_gb_per_s = 0;  // sustained; 27.2 is the theoretical figure
  double dma_buffer_ns = 0;        // a buffer's own cost; undisclosed, read off a published curve
  double dma_start_ns = 0;         // from the trigger to the first byte
  std::size_t dma_semaphore_step = 0;  // the end of a transfer adds this to its semaphore

  std::size_t semaphores = 0;  // undisclosed
  std::uint32_t dtypes = 0;    // dtype_bit() of each type that tiles may hold

  constexpr std::size_t psum_partition_bytes() const { return psum_banks * psum_bank_bytes; }
  constexpr bool has(DType dtype) const { return (dtypes & dtype_bit(dtype)) != 0; }
};

// NeuronCore-v2: the core of Trainium (Trn1) and Inferentia2.
constexpr Machine trn1() {
  return {.name = "trn1",
          .partitions = 128,
          .sbuf_partition_bytes = 192 * 1024,
          .psum_banks = 8,
          .psum_bank_bytes = 2048,
          .hbm_bytes = std::size_t{16} << 30,
          .hbm_gb_per_s = 410,
          .sbuf_align = 4,
          .matmul_stationary_free = 128,
          .matmul_moving_free = 512,
          .bn_stats_free = 512,
          .sbuf_operand_free = 65536,
          .psum_operand_free = 4096,
          .transpose_vector = 32,
          .tensor_ghz = 2.8,
          .vector_ghz = 1.12,
          .scalar_ghz = 1.4,
          .gpsimd_ghz = 1.4,
          .issue_cycles = 64,
          .dependence_cycles = 100,
          .scalar_dependence_cycles = 200,
          .semaphore_hop_cycles = 100,
          .launch_ns = 8000,
          .descriptors_start_cycles = 330,
          .descriptor_cycles = 75,
          .dma_engines = 16,
          .dma_queues_per_engine = 16,
          .dma_engine_gb_per_s = 17,
          .dma_buffer_ns = 142,
          .dma_start_ns = 1300,
          .dma_semaphore_step = 16,
          .semaphores = 256,
          .dtypes = dtype_bit(DType::fp32) | dtype_bit(DType::tf32) | dtype_bit(DType::fp16) |
                    dtype_bit(DType::bf16) | dtype_bit(DType::fp8_e3m4) |
                    dtype_bit(DType::fp8_e4m3) | dtype_bit(DType::fp8_e5m2) |
                    dtype_bit(DType::int8) | dtype_bit(DType::uint8) | dtype_bit(DType::int16) |
                    dtype_bit(DType::uint16) | dtype_bit(DType::int32) | dtype_bit(DType::uint32) |
                    dtype_bit(DType::boolean)};
}

}  // namespace SOMA_NAMESPACE::neuroncore
