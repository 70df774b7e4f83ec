#pragma once
// CoreOptions: the checks of a core, and its policies where the hardware's documents are silent.
// Such a policy belongs to this model and is never a claim about the hardware.

#include <soma/neuroncore/memory/on_chip_memory.hpp>
#include <soma/neuroncore/order/order.hpp>
#include <soma/numeric/float_format.hpp>

#include <cstdint>

namespace SOMA_NAMESPACE::neuroncore {

// The order in which the array adds the (at most 128) products of one matmul before the sum joins
// PSUM.
enum class SumOrder : std::uint8_t {
  ascending,  // fp32, k ascending, each product exact before it is added
  pairwise,   // fp32 products, then neighbours 0+1, 2+3 ..., then those pairs, and so on
  wide,       // in double, rounded to fp32 once
};

// The order in which the Vector engine adds along the free dimensions.
enum class ReduceOrder : std::uint8_t {
  lanes,      // 16 logical lanes that meet pairwise, as 1,024 elements of the host's reductions
  ascending,  // one by one
};

// The result of an activation function outside its published range, where the hardware's is
// "invalid".
enum class OutOfRange : std::uint8_t {
  value,  // the function's value; Statistics::out_of_range counts it
  nan,
  error,  // neuroncore.undefined
};

struct CoreOptions {
  Synchronization synchronization = Synchronization::automatic;
  bool check_races = true;
  Uninitialised uninitialised = Uninitialised::nan;
  // Tiles of every floating type hold fp32, to distinguish a mistake in a program from rounding.
  // Rules, capacity and cost still follow the requested type; only the bits of narrow types
  // (Tile::as) do not exist.
  bool everything_fp32 = false;
  // Not 0: transfers end as late as their order allows, or a random time earlier (seeded), so that
  // a missing wait shows.
  std::uint64_t dma_stress_seed = 0;
  bool record = false;  // keep every Instruction
  // false: a dry run. Instructions are checked, ordered, counted and recorded as usual, but nothing
  // is computed: tiles have no numbers, stored tensors hold zeros, a gather does not read its
  // indices, and a scatter leaves its table unchanged. Checks that depend on numbers are left out
  // (indices, arguments of functions). An instruction that would write some elements of a tile
  // counts as if it wrote all.
  bool compute = true;

  SumOrder sum_order = SumOrder::ascending;
  ReduceOrder reduce_order = ReduceOrder::lanes;
  OutOfRange out_of_range = OutOfRange::value;
  Overflow overflow = Overflow::infinity;  // for values too large for a cFP8 tile
};

}  // namespace SOMA_NAMESPACE::neuroncore
