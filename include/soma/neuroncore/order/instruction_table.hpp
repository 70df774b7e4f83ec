#pragma once
// The instructions in the vendor's reference (nki.isa of SDK 2.26 to 2.32, by their names there),
// and their counterparts in this model: data for the documentation.

#include <soma/neuroncore/order/instruction.hpp>

#include <array>
#include <cstddef>
#include <string_view>

namespace SOMA_NAMESPACE::neuroncore {

struct VendorInstruction {
  std::string_view name{};
  std::string_view engines{};      // that have it
  std::string_view call{};         // ours, of a Core named core; empty: not here
  Opcode opcode = Opcode::matmul;  // where there is a call
  std::string_view note{};         // how ours differs, or why there is none
  std::size_t first = 2;           // generation with it

  constexpr bool here() const { return !call.empty(); }
};

inline constexpr auto vendor_instructions = std::to_array<VendorInstruction>({
    // Tensor engine
    {"nc_matmul", "tensor", "core.tensor.matmul", Opcode::matmul,
     "no int8 inputs, no tiles of the array; hints that an operand is only 0 and 1 are not taken"},
    {"nc_transpose", "tensor", "core.tensor.transpose", Opcode::transpose, ""},
    {"nc_matmul", "tensor", "core.tensor.matmul_double_row", Opcode::matmul,
     "with perf_mode double_row; no sparse products", 3},
    {"nc_matmul_mx", "tensor", "core.tensor.matmul_mx", Opcode::matmul_mx,
     "MXFP8 only, no tiles of the array", 4},
    {"quantize_mx", "vector", "core.vector.quantize_mx", Opcode::quantize_mx, "", 4},
    // Scalar engine
    {"activation", "scalar", "core.scalar.activation", Opcode::activation, ""},
    {"activation_reduce", "scalar", "core.scalar.activation_reduce", Opcode::activation, ""},
    {"tensor_copy", "scalar", "core.scalar.copy", Opcode::activation, "activation with copy"},
    {"activate2", "scalar", "core.scalar.activate2", Opcode::activate2, "no relu_param", 4},
    {"exponential", "vector", "core.vector.exponential", Opcode::exponential,
     "the accumulators are always reset and read", 4},
    {"rand2", "vector", "core.vector.rand2", Opcode::rand2,
     "the library's own draws: the hardware's states are not published", 4},
    // Vector engine
    {"tensor_tensor", "vector", "core.vector.tensor_tensor", Opcode::tensor_tensor, ""},
    {"tensor_scalar", "vector", "core.vector.tensor_scalar", Opcode::tensor_scalar,
     "operators on bits take constants only"},
    {"tensor_scalar_reduce", "vector", "core.vector.tensor_scalar_reduce",
     Opcode::tensor_scalar_reduce, "the accumulators are always reset and read"},
    {"tensor_scalar_cumulative", "vector", "core.vector.tensor_scalar_cumulative",
     Opcode::tensor_scalar_cumulative, ""},
    {"scalar_tensor_tensor", "vector", "core.vector.scalar_tensor_tensor",
     Opcode::scalar_tensor_tensor, ""},
    {"tensor_reduce", "vector", "core.vector.tensor_reduce", Opcode::tensor_reduce,
     "no subtract: its order is not published"},
    {"tensor_tensor_scan", "vector", "core.vector.tensor_tensor_scan", Opcode::tensor_tensor_scan,
     ""},
    {"select_reduce", "vector", "core.vector.select", Opcode::select,
     "without the reduction and the reversed predicate"},
    {"tensor_copy_predicated", "vector", "core.vector.copy_predicated", Opcode::copy_predicated,
     "src is a tile"},
    {"tensor_copy", "vector", "core.vector.copy", Opcode::copy, ""},
    {"memset", "vector", "core.vector.memset", Opcode::memset, "the value passes through fp32"},
    {"bn_stats", "vector", "core.vector.bn_stats", Opcode::bn_stats, ""},
    {"bn_aggr", "vector", "core.vector.bn_aggr", Opcode::bn_aggr, ""},
    {"reciprocal", "vector", "core.vector.reciprocal", Opcode::reciprocal, ""},
    {"dropout", "vector", "core.vector.dropout", Opcode::dropout,
     "one probability, as a threshold; an element's place determines its draw"},
    {"rng", "vector", "core.vector.rng", Opcode::rng,
     "the library's own draws: the hardware's generator is not published"},
    {"set_rng_seed", "vector", "", {}, "a draw names its seed: nothing depends on what ran before"},
    {"max8", "vector", "core.vector.max8", Opcode::max8, ""},
    {"nc_find_index8", "vector", "core.vector.find_index8", Opcode::find_index8,
     "indices may also be int32"},
    {"nc_match_replace8", "vector", "core.vector.match_replace8", Opcode::match_replace8,
     "indices may also be int32"},
    {"nc_stream_shuffle", "vector", "core.vector.stream_shuffle", Opcode::stream_shuffle, ""},
    {"nc_transpose", "vector", "core.vector.transpose", Opcode::transpose, ""},
    {"range_select", "vector", "core.vector.range_select", Opcode::range_select,
     "the accumulators are always reset and read", 3},
    {"nonzero_with_count", "gpsimd", "core.gpsimd.nonzero_with_count", Opcode::nonzero_with_count,
     "", 3},
    // GpSimd engine
    {"iota", "gpsimd", "core.gpsimd.iota", Opcode::iota, ""},
    {"affine_select", "gpsimd", "core.gpsimd.affine_select", Opcode::affine_select, ""},
    {"local_gather", "gpsimd", "core.gpsimd.local_gather", Opcode::local_gather,
     "indices may also be int32"},
    {"nc_n_gather", "gpsimd", "core.gpsimd.n_gather", Opcode::n_gather,
     "indices may also be int32"},
    {"tensor_partition_reduce", "gpsimd", "core.gpsimd.partition_reduce", Opcode::partition_reduce,
     ""},
    {"partition_broadcast", "gpsimd", "core.gpsimd.partition_broadcast",
     Opcode::partition_broadcast, "of the language's library rather than its instructions"},
    {"sequence_bounds", "gpsimd", "core.gpsimd.sequence_bounds", Opcode::sequence_bounds, ""},
    {"tensor_tensor", "gpsimd", "core.gpsimd.tensor_tensor", Opcode::tensor_tensor,
     "exact on int32 and uint32, and the only engine with power"},
    {"tensor_scalar", "gpsimd", "core.gpsimd.tensor_scalar", Opcode::tensor_scalar, "rsqrt only"},
    {"tensor_copy", "gpsimd", "core.gpsimd.copy", Opcode::copy, ""},
    {"memset", "gpsimd", "core.gpsimd.memset", Opcode::memset, "the value passes through fp32"},
    {"topk", "gpsimd", "", {}, "not implemented; SDK 2.32 publishes its semantics"},
    {"builtin_custom_op", "gpsimd", "core.gpsimd.custom_operator", Opcode::custom_operator,
     "of the vendor's libraries; here for kernels of custom operators (custom_operators.md)"},
    {"rand_set_state", "vector, gpsimd", "", {}, "a draw names its seed: there is no state", 3},
    {"rand_get_state", "vector, gpsimd", "", {}, "a draw names its seed: there is no state", 3},
    // DMA and control
    {"dma_copy", "dma", "core.dma.load, core.dma.store", Opcode::dma_copy, ""},
    {"dma_copy", "dma", "core.dma.copy", Opcode::dma_copy, "within SBUF"},
    {"dma_copy", "dma", "core.dma.gather", Opcode::dma_gather, "with an index for each partition"},
    {"dma_copy", "dma", "core.dma.scatter", Opcode::dma_scatter,
     "with an index for each partition"},
    {"dma_transpose", "dma", "core.dma.load_transposed", Opcode::dma_transpose,
     "of a view whose dimensions changed places"},
    {"dma_compute", "dma", "core.dma.sum", Opcode::dma_sum, ""},
    {"register_alloc, register_move, register_load, register_store",
     "all",
     "",
     {},
     "a program is C++ and needs no registers"},
    {"tensor_copy_dynamic_src, tensor_copy_dynamic_dst",
     "vector, scalar, gpsimd",
     "",
     {},
     "a slice made at run time does it"},
    {"core_barrier",
     "all",
     "",
     {},
     "of two cores that appear as one: LogicalCore::core_barrier",
     3},
    {"sendrecv", "gpsimd, dma", "", {}, "of two cores that appear as one: not implemented", 3},
});

}  // namespace SOMA_NAMESPACE::neuroncore
