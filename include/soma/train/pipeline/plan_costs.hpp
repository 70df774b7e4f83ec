#pragma once
// PlanCosts: the costs of a layout of a training, from one profile of the model's pieces: the bytes
// of each rank, the seconds of a step, the bytes that are sent; and the cuts that cost least.

#include <soma/nn/pieces.hpp>
#include <soma/nn/task.hpp>
#include <soma/parallel/plan.hpp>
#include <soma/train/memory/rank_memory.hpp>
#include <soma/train/options.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace SOMA_NAMESPACE::train {

// How a training is laid out on ranks. One process: all are 1.
struct PlanLayout {
  std::size_t partitions = 1, replicas = 1, microbatches = 1;
  Pipeline schedule = Pipeline::interleaved;
  Optimize optimize = Optimize::memory;
  bool recompute = false, shard_optimizer = false;
  bool in_stages = false;  // a PipelineTrainer, also for one stage and whole batches

  std::size_t ranks() const { return partitions * replicas; }
  // True for one process, or replicas: a trainer without a pipeline does it.
  bool plain() const { return partitions == 1 && microbatches == 1 && !in_stages; }
};

// The machine and the run, which do not depend on the layout.
struct PlanBasis {
  std::size_t accumulate = 1;
  std::uint64_t bucket_bytes = 0;
  bool average = false, keeps_best = false, evaluates = true;
  bool early = false;             // TrainerOptions::step_early
  bool makes_weights = false;     // PipelineOptions::later
  bool between_steps = false;     // evaluations within an epoch
  bool whole_first_step = false;  // scales that the first step does not know (fp8_delayed)
  std::uint64_t data = 0;         // heap of the batches of a step, and before the run
  std::uint64_t whole = 0;  // weights of the whole model that each rank begins with; 0: its own
  std::uint64_t program = 0, mapped = 0;
  std::uint64_t profile = 0;   // memory that the heap held at most while pieces were measured
  std::size_t evaluated = 0;   // rows of the largest batch of an evaluation
  double network = 4e9;        // bytes a second from one rank to another
  double memory = 4e9;         // bytes a second that a step of the optimizer reads and writes
  bool one_machine = true;     // ranks share its cores
  int cores = 1, threads = 1;  // the machine's; a rank's
};

class PlanCosts {
 public:
  // `parameters`: a list for each piece. Nothing can be estimated before set_profiles().
  PlanCosts(std::vector<PieceCost> pieces, std::vector<std::vector<ParameterMemory>> parameters,
            BatchSizes batches, const PlanBasis& setting);
  // A profile for each piece, for layouts with this `recompute`.
  void set_profiles(std::vector<PieceProfile> profiles, bool recompute);
  // True if the profiles have the size of that layout's micro-batches.
  bool has(const PlanLayout& layout) const;

  const std::vector<PieceCost>& pieces() const { return pieces_; }
  const PlanBasis& setting() const { return setting_; }
  const BatchSizes& batches() const { return batches_; }

  // The pieces' times and bytes for micro-batches of that layout.
  std::vector<PieceCost> costs(const PlanLayout& layout) const;

  // The estimate of the stage with the pieces first ... end - 1 while it trains. Error
  // parallel.argument.
  MemoryEstimate stage(const PlanLayout& layout, std::size_t stage, std::size_t first,
                       std::size_t end) const;
  // All stages; the first one's slack has what measuring took.
  std::vector<MemoryEstimate> stages(const PlanLayout& layout,
                                     const std::vector<std::size_t>& cuts) const;
  // The largest rank's bytes, with what is beside its heap.
  std::uint64_t largest(const PlanLayout& layout, const std::vector<std::size_t>& cuts) const;
  // A whole step; 0: nothing was timed.
  double seconds(const PlanLayout& layout, const std::vector<std::size_t>& cuts) const;
  // Bytes that all ranks send in a step.
  std::uint64_t sent(const PlanLayout& layout, const std::vector<std::size_t>& cuts) const;

  // The cuts whose largest rank needs least (aim memory), or whose step takes least among those
  // within the limit (aim speed; limit 0: none); among equals those that send least, then the
  // leftmost. Error parallel.plan: too few pieces, or none within the limit, with the smallest
  // limit that works.
  std::vector<std::size_t> choose(const PlanLayout& layout, std::uint64_t limit) const;
  // The same without an error: where nothing is within the limit, the cuts that need least.
  std::vector<std::size_t> best_cuts(const PlanLayout& layout, std::uint64_t limit) const;

 private:
  const std::vector<PieceProfile>& profiles(const PlanLayout& layout) const;
  // The parameters that the stage with the pieces first ... end - 1 has, with its copies.
  std::vector<ParameterMemory> parameters_of_stage(std::size_t first, std::size_t end) const;
  static std::size_t size_index(const PlanLayout& layout);
  std::uint64_t result_bytes(const PlanLayout& layout, std::size_t piece) const;
  double reduction_seconds(const PlanLayout& layout, std::size_t first, std::size_t end) const;
  std::vector<std::size_t> smallest(const PlanLayout& layout) const;
  std::vector<std::size_t> fastest(const PlanLayout& layout, std::uint64_t limit) const;

  std::vector<PieceCost> pieces_;
  std::vector<std::vector<ParameterMemory>> parameters_;
  BatchSizes batches_;
  PlanBasis setting_;
  std::vector<PieceProfile> plain_{}, again_{};
};

// All partitions of `pieces` pieces that may be cut where `joined` is false; nothing if there are
// more than `most`.
std::vector<std::vector<std::size_t>> all_cuts(const std::vector<PieceCost>& pieces,
                                               std::size_t partitions, std::size_t most);

// The sizes of micro-batches to measure.
struct CostRequest {
  std::vector<std::size_t> timed{};   // numbers of parts of a batch
  std::vector<std::size_t> others{};  // the same, for memory alone
  bool recompute_too = false;         // with and without, if the task has the choice
  std::size_t evaluated = 0;          // rows of the largest batch of an evaluation
  double network = 0;                 // bytes a second; 0: as within this machine
};

// Profiles a task's pieces on the largest parts of the source's batches, and seeks back. Errors
// train.options (PieceProfiler), and those of the task and the source.
PlanCosts measure_costs(Context& context, nn::Task& task, const nn::Pieces& pieces,
                        const TrainerOptions& options, const std::vector<PieceCost>& known,
                        const BatchSizes& batches, data::BatchSource& source,
                        const CostRequest& request);

// The number of batches of a run that are read to know their sizes.
std::size_t batches_to_read(const TrainerOptions& options, const data::BatchSource& source);

// A limit that a rank of so many bytes keeps when the program is started again: memory beside the
// heap differs by some hundred KiB from one start to the next.
std::uint64_t limit_for(std::uint64_t bytes);

// Powers of two from 1 to `most`.
std::vector<std::size_t> parts_up_to(std::size_t most);

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/pipeline/impl/plan_costs.ipp>
#endif
