#pragma once
// The estimate of one rank's memory: replays the actions of a step with the bytes that its pieces
// need, as they were measured.
//
// The replay has forwards and backwards of all micro-batches in the order of the schedule; sums
// of gradients that wait for others (parallel/microbatch_sums.hpp); buckets, in which gradients
// exist twice while they are laid out, and messages of replicas (parallel/gradient_reducer.hpp);
// results and gradients that arrive ahead and leave (train/pipeline/links.hpp); the step of the
// optimizer; an evaluation; saving. Timing of other ranks is not known, so messages count as long
// as they may exist. Gradients of tables with few rows count the rows of the largest batch.

#include <soma/ops/operator.hpp>
#include <soma/parallel/schedule.hpp>
#include <soma/train/memory/batch_sizes.hpp>
#include <soma/train/memory/estimate.hpp>
#include <soma/train/memory/piece_memory.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace SOMA_NAMESPACE {
class Context;  // runtime/context.hpp
}

namespace SOMA_NAMESPACE::train {

// A parameter of the rank.
struct ParameterMemory {
  std::uint64_t value = 0;    // bytes
  std::uint64_t moments = 0;  // for all rows
  Shape shape{};
  bool trained = true;  // false: frozen, or a copy of what another stage trains
  // If pieces share it (nn::Piece::shared): the piece before this one that uses it (to_end: none),
  // and the last one.
  std::size_t before = to_end, last = 0;
  bool several = false;  // pieces share it
};

// How gradients come together.
enum class GradientSums : std::uint8_t {
  tape,   // one process: the tape adds them to the parameters
  early,  // the same, but a parameter is stepped and gives its gradient back once it is complete
  ranks,  // replicas share each batch (or there is one), in buckets
};

struct RankProblem {
  std::span<const PieceProfile> pieces{};  // pieces of this rank
  std::vector<ParameterMemory> parameters{};
  const BatchSizes* batches = nullptr;
  std::vector<PipelineAction> actions{};  // over all micro-batches of a step
  std::size_t in_flight = 1;              // micro-batches, in this stage
  std::size_t in_flight_behind = 0;       // in the next stage
  bool first = true, last = true;         // among the stages
  std::uint64_t input = 0;                // bytes that a micro-batch brings from the stage before
  std::uint64_t beside_input = 0;         // bytes of what the stage makes of it
  std::size_t microbatches = 1, replicas = 1, accumulate = 1;
  GradientSums sums = GradientSums::tape;
  bool shard = false;  // each replica keeps its rows of gradients and moments
  std::uint64_t bucket_bytes = 0;
  bool average = false, whole_first_step = false, evaluates = true;
  bool between_steps = false;  // evaluations while the gradients of a step are still there
  bool keeps_best = false;     // a copy of the weights, in memory
  std::size_t evaluated = 0;   // rows of the largest batch of an evaluation
  std::uint64_t shared = 0;    // bytes of gradients that come from other stages' copies
  std::uint64_t fetched = 0;   // bytes of the largest tensor of another stage that this rank saves
  std::uint64_t data = 0;      // heap of the batches of a step, and before the run
};

// Beside its elements a tensor has a header in the heap and a record of its storage, and ends at a
// unit of the heap.
inline constexpr std::uint64_t tensor_bytes = 192;
// Entries of a gradient on its way to a parameter: the sums that wait for micro-batches, and those
// that a bucket has. Lists double, so up to twice their entries.
inline constexpr std::uint64_t waiting_entry = 2 * sizeof(Gradient);
inline constexpr std::uint64_t bucket_entry = 4 * sizeof(Gradient);
// One in so many bytes is added for what is not modelled: small records of other parts of a run.
inline constexpr std::uint64_t margin = 50;

// Asks the heap for what the estimate leaves to use, in one block, so that little of it is left
// unused between others. Error memory.exhausted.
void reserve(Context& context, const MemoryEstimate& estimate);

// The largest of the replicas. Error parallel.argument: a size of micro-batches that was not
// measured.
MemoryEstimate estimate_rank(const RankProblem& problem);

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/memory/impl/rank_memory.ipp>
#endif
