#pragma once
// CoreOptions: what a core checks, and which way it goes where the hardware's documents are silent.
// Such a choice is a named policy of this model and never a claim about the hardware.

#include <soma/neuroncore/memory/on_chip_memory.hpp>
#include <soma/neuroncore/order/order.hpp>
#include <soma/numeric/float_format.hpp>

#include <cstdint>

namespace soma::neuroncore {

// How the array adds the (at most 128) products of one matmul before the sum joins PSUM.
enum class SumOrder : std::uint8_t {
  ascending,  // fp32, k ascending, each product exact before it is added
  pairwise,   // fp32 products, then neighbours 0+1, 2+3 ..., then those pairs, and so on
  wide,       // in double, rounded to fp32 once
};

// In which order the Vector engine adds along the free dimensions.
enum class ReduceOrder : std::uint8_t {
  lanes,      // 16 logical lanes that meet pairwise, as the host's reductions
  ascending,  // one by one
};

// What an activation function gives outside its published range, where the result is "invalid".
enum class OutOfRange : std::uint8_t {
  value,  // the function's value; Statistics::out_of_range counts it
  nan,
  error,  // neuroncore.undefined
};

struct CoreOptions {
  Synchronization synchronization = Synchronization::automatic;
  bool check_races = true;
  Uninitialised uninitialised = Uninitialised::nan;
  // Tiles of every floating type hold fp32, to tell a mistake in a program from rounding. Rules,
  // capacity and cost still go by the type asked for; only the bits of narrow ones (Tile::as) are
  // not there.
  bool everything_fp32 = false;
  // Not 0: transfers end as late as their order allows, or a random while earlier (seeded), so that
  // a missing wait shows.
  std::uint64_t dma_stress_seed = 0;
  bool record = false;  // keep every Instruction
  // false: a dry run. Instructions are checked, ordered, counted and recorded as ever, and nothing
  // is computed: tiles have no numbers, tensors that are stored to hold zeros, a gather does not
  // read its indices, a scatter leaves its table as it is. What depends on numbers is not checked
  // (indices, arguments of functions); what would write some elements of a tile counts as if it
  // wrote all.
  bool compute = true;

  SumOrder sum_order = SumOrder::ascending;
  ReduceOrder reduce_order = ReduceOrder::lanes;
  OutOfRange out_of_range = OutOfRange::value;
  Overflow overflow = Overflow::infinity;  // of what is too large for a cFP8 tile
};

}  // namespace soma::neuroncore
