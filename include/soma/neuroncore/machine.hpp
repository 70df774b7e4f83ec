#pragma once
// Machine: the numbers and the rules of one core, as data. trn1(), trn2() and trn3() are the
// NeuronCore-v2, v3 and v4 of AWS Trainium; describe another by changing fields of a copy. Engines
// and clock read these fields, and never ask which generation or machine it is.
//
// Sources are public: the pages of the AWS Neuron documentation named beside each group
// (https://awsdocs-neuron.readthedocs-hosted.com); "guide" is the architecture guide of the
// generation, nki/guides/architecture. Where nothing is published the field says "undisclosed" and
// holds a parameter of this model, not a fact.

#include <soma/neuroncore/figures.hpp>
#include <soma/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore {

constexpr std::uint32_t dtype_bit(DType dtype) {
  return std::uint32_t{1} << static_cast<unsigned>(dtype);
}

constexpr std::uint32_t dtype_bits(std::initializer_list<DType> dtypes) {
  std::uint32_t bits = 0;
  for (const DType dtype : dtypes) bits |= dtype_bit(dtype);
  return bits;
}

// The things that not every generation has: instructions, and forms of them. An instruction that
// needs one refuses a machine without it, error neuroncore.generation.
enum class Feature : std::uint8_t {
  range_select,
  nonzero_with_count,
  double_row,     // products of fp8 over two rows of the array at a time
  number_bias,    // the bias of an activation may be a number
  logical_cores,  // two cores that share a bank of device memory appear as one
  matmul_mx,
  quantize_mx,
  exponential,
  activate2,
  rand2,
  bf16_sums,  // products may leave bf16 in PSUM
};
inline constexpr std::size_t feature_count = 11;

struct FeatureInfo {
  std::string_view name;
  std::size_t first;  // generation; for texts
};
constexpr FeatureInfo info(Feature feature) {
  constexpr FeatureInfo infos[feature_count] = {{"range_select", 3},
                                                {"nonzero_with_count", 3},
                                                {"matmul_double_row", 3},
                                                {"activation with a number as bias", 3},
                                                {"logical cores", 3},
                                                {"matmul_mx", 4},
                                                {"quantize_mx", 4},
                                                {"exponential", 4},
                                                {"activate2", 4},
                                                {"rand2", 4},
                                                {"products with bf16 results", 4}};
  return infos[static_cast<std::size_t>(feature)];
}
constexpr std::uint32_t feature_bits(std::initializer_list<Feature> features) {
  std::uint32_t bits = 0;
  for (const Feature feature : features) bits |= std::uint32_t{1} << static_cast<unsigned>(feature);
  return bits;
}
// The first generation whose tiles hold the type; 0: none of those described here. For texts.
constexpr std::size_t first_generation_of(DType dtype) {
  return dtype == DType::fp8_e4m3fn || dtype == DType::e8m0 ? 4 : dtype == DType::int64 ? 3 : 0;
}

// When instructions of two engines wait for each other because both use a memory.
enum class Exclusion : std::uint8_t {
  memory,  // always
  bank,    // where both use one PSUM bank
  none,
};

// Elements that an engine passes in one cycle of a lane in its performance mode, which a copy or an
// operation with a scalar runs in if its tiles have some of `dtypes`.
struct FastRate {
  std::uint32_t dtypes = 0;
  double contiguous = 1;  // both tiles in SBUF, neighbours side by side
  double other = 1;       // both in SBUF but strided, or side by side and one of them in PSUM
};

// The rules in which generations differ.
struct MachineRules {
  Exclusion vector_gpsimd_sbuf = Exclusion::memory;
  Exclusion vector_scalar_psum = Exclusion::memory;
  bool exact_transposes = false;     // on the Tensor engine; otherwise a product with the identity
  bool exact_scalar_copies = false;  // the Scalar engine copies bits; otherwise through fp32
  bool adds_to_any_psum = false;     // a product may add to what another engine wrote into PSUM
  FastRate vector_fast{}, scalar_fast{};
};

struct Machine {
  std::string_view name;
  std::size_t generation = 0;  // 2: NeuronCore-v2
  // A report says this of its times.
  std::string_view estimate =
      "estimate by published rules, not a bound; how close it comes: docs/neuroncore.md, "
      "\"Anchors\"";

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
  std::size_t matmul_moving_free_bf16 = 0;  // with a result of bf16; 0: there is none
  std::size_t matmul_banks = 0;             // that one result may span
  // Rows of a contraction that a partition feeds: of fp8 with double_row, and of MX; 0: no MX.
  std::size_t fp8_rows = 0, mx_rows = 0;
  std::size_t bn_stats_free = 0;
  std::size_t sbuf_operand_free = 0;  // elements a partition of a Vector or Scalar operand
  std::size_t psum_operand_free = 0;
  std::size_t transpose_vector = 0;  // rows and columns of a Vector engine transpose

  // about-neuron/arch/neuron-hardware/neuron-core-v2: clocks
  double tensor_ghz = 0, vector_ghz = 0, scalar_ghz = 0, gpsimd_ghz = 0;

  // Elements a cycle and lane: of a Vector engine's operation on two 16-bit tiles in SBUF, beside
  // the formula of SDK 2.26; of exponential, quantize_mx and rand2 (guide).
  double vector_pair_rate = 1, exponential_rate = 1, quantize_rate = 1, random_rate = 1;

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
  // Partitions that one DMA engine serves; 0: the buffers of a transfer go to all engines.
  std::size_t dma_engine_partitions = 0;

  std::size_t semaphores = 0;  // undisclosed
  std::uint32_t dtypes = 0;    // dtype_bit() of each type that tiles may hold
  std::uint32_t features = 0;  // feature_bits()
  std::uint32_t not_here = 0;  // dtype_bit() of types that the core has and this model has not
  MachineRules rules{};

  // As pages say: a core's share of device memory, 10^9 bytes a second, and its peak in bf16, 10^12
  // operations a second. The clock uses hbm_gb_per_s and tensor_ghz.
  Figures published_hbm{}, published_tflops{};

  constexpr std::size_t psum_partition_bytes() const { return psum_banks * psum_bank_bytes; }
  constexpr bool has(DType dtype) const { return (dtypes & dtype_bit(dtype)) != 0; }
  constexpr bool has(Feature feature) const {
    return (features >> static_cast<unsigned>(feature) & 1) != 0;
  }
};

namespace detail {

inline constexpr std::string_view estimate_by_v2 =
    "estimate by the formulas of v2; no published timing to hold it to";

}  // namespace detail

// NeuronCore-v2: the core of Trainium (Trn1) and Inferentia2.
constexpr Machine trn1() {
  return {.name = "trn1",
          .generation = 2,
          .partitions = 128,
          .sbuf_partition_bytes = 192 * 1024,
          .psum_banks = 8,
          .psum_bank_bytes = 2048,
          .hbm_bytes = std::size_t{16} << 30,
          .hbm_gb_per_s = 410,
          .sbuf_align = 4,
          .matmul_stationary_free = 128,
          .matmul_moving_free = 512,
          .matmul_banks = 1,
          .fp8_rows = 1,
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
          .dtypes =
              dtype_bits({DType::fp32, DType::tf32, DType::fp16, DType::bf16, DType::fp8_e3m4,
                          DType::fp8_e4m3, DType::fp8_e5m2, DType::int8, DType::uint8, DType::int16,
                          DType::uint16, DType::int32, DType::uint32, DType::boolean}),
          .published_hbm = {{410, "about-neuron/arch/neuron-hardware/trainium: 0.82 TB/s, 2 cores"},
                            {}},
          .published_tflops = {{92, "about-neuron/arch/neuron-hardware/neuron-core-v2"}, {}}};
}

// NeuronCore-v3: the core of Trainium2. Numbers of trainium2_arch (guide), neuron-core-v3 and
// trainium2 (about-neuron/arch/neuron-hardware), nki.isa of SDK 2.32 and nki-dma-bandwidth-guide.
// As for v2, where no page prints a number: issue, dependence and semaphore costs, launch, and the
// cycles of instructions.
constexpr Machine trn2() {
  Machine machine = trn1();
  machine.name = "trn2";
  machine.generation = 3;
  machine.estimate = detail::estimate_by_v2;
  machine.sbuf_partition_bytes = 224 * 1024;            // guide
  machine.hbm_bytes = std::size_t{12} << 30;            // guide: 96 GiB, 8 cores
  machine.hbm_gb_per_s = 375;                           // guide: 3 TB/s
  machine.tensor_ghz = 2.4, machine.vector_ghz = 0.96;  // guide
  machine.scalar_ghz = 1.2, machine.gpsimd_ghz = 1.2;
  machine.fp8_rows = 2;              // nki.isa nc_matmul, perf_mode double_row
  machine.vector_pair_rate = 2;      // guide, "Vector Engine Performance Mode"
  machine.dma_engine_gb_per_s = 23;  // nki-dma-bandwidth-guide
  // Undisclosed; a buffer of 2 KiB, the least that nki-dma-bandwidth-guide recommends, reaches the
  // engine's rate.
  machine.dma_buffer_ns = 2048.0 / 23;
  machine.dma_engine_partitions = 8;  // nki-dma-overview
  machine.features =
      feature_bits({Feature::range_select, Feature::nonzero_with_count, Feature::double_row,
                    Feature::number_bias, Feature::logical_cores});  // nki.isa
  machine.not_here = dtype_bit(DType::int64);  // about-neuron/arch/neuron-features/data-types
  machine.rules = {.vector_gpsimd_sbuf = Exclusion::none,  // guide, "Data Movement Updates"
                   .vector_scalar_psum = Exclusion::bank,
                   .exact_transposes = true,     // guide, "Built-in Transpose Support"
                   .exact_scalar_copies = true,  // guide, "Scalar Engine"
                   .vector_fast = {dtype_bits({DType::bf16, DType::fp16}), 4, 2}};
  machine.published_hbm = {{375, "trainium2_arch: 3 TB/s, 8 cores"},
                           {362.5, "about-neuron/arch/neuron-hardware/trainium2: 2.9 TB/s"}};
  machine.published_tflops = {{79, "about-neuron/arch/neuron-hardware/neuron-core-v3"},
                              {83.4, "about-neuron/arch/neuron-hardware/trainium2: 667, 8 cores"}};
  return machine;
}

// NeuronCore-v4: the core of Trainium3. Numbers of trainium3_arch (guide), neuron-core-v4 and
// trainium3, nki.isa of SDK 2.32 and nki-dma-bandwidth-guide; otherwise as trn2().
constexpr Machine trn3() {
  Machine machine = trn2();
  machine.name = "trn3";
  machine.generation = 4;
  machine.sbuf_partition_bytes = 256 * 1024;  // guide: 32 MiB
  machine.hbm_bytes = std::size_t{18} << 30;  // guide: 144 GiB, 8 cores
  machine.hbm_gb_per_s = 587.5;               // guide: 4.7 TB/s
  machine.vector_ghz = 1.2;                   // guide
  machine.matmul_moving_free = 4096;          // nki.isa nc_matmul
  machine.matmul_moving_free_bf16 = 8192;
  machine.matmul_banks = 8;
  machine.mx_rows = 4;               // guide, "Quad-MXFP8/MXFP4 Matmul Performance"
  machine.exponential_rate = 4;      // guide: four times the Scalar engine's
  machine.quantize_rate = 4;         // guide, "MX data-type Quantization"
  machine.random_rate = 4;           // guide, "XORWOW-based PRNG"
  machine.dma_engine_gb_per_s = 33;  // nki-dma-bandwidth-guide
  machine.dma_buffer_ns = 2048.0 / 33;
  machine.dtypes |= dtype_bits({DType::fp8_e4m3fn, DType::e8m0});
  machine.features |= feature_bits({Feature::matmul_mx, Feature::quantize_mx, Feature::exponential,
                                    Feature::activate2, Feature::rand2, Feature::bf16_sums});
  machine.rules.adds_to_any_psum = true;  // nki.isa nc_matmul
  machine.rules.vector_fast.dtypes |= dtype_bits(
      {DType::fp8_e3m4, DType::fp8_e4m3, DType::fp8_e4m3fn, DType::fp8_e5m2});  // guide, table
  machine.rules.scalar_fast = {dtype_bits({DType::bf16, DType::fp16}), 2, 2};   // guide
  machine.published_hbm = {{587.5, "trainium3_arch: 4.7 TB/s, 8 cores"},
                           {612.5, "about-neuron/arch/neuron-hardware/trainium3: 4.9 TB/s"}};
  machine.published_tflops = {{79, "about-neuron/arch/neuron-hardware/neuron-core-v4"},
                              {83.9, "about-neuron/arch/neuron-hardware/trainium3: 671, 8 cores"}};
  return machine;
}

inline constexpr Machine machines[] = {trn1(), trn2(), trn3()};

}  // namespace SOMA_NAMESPACE::neuroncore
