#pragma once
// PipelineGroups: the division of a run's ranks into stages and replicas, and a communicator for
// each.

#include <soma/parallel/agreement.hpp>
#include <soma/parallel/group.hpp>
#include <soma/train/options.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace soma::train {

// Checks that `ranks` ranks can form this pipeline, and a batch of `shards` shards its
// micro-batches (0: not known yet). Error train.options.
inline void check_pipeline(const PipelineOptions& options, std::size_t ranks, std::size_t shards) {
  const auto refuse = [](std::string_view name, std::size_t given, const std::string& wanted) {
    fail(error_id::train_options, "pipeline", name, std::to_string(given), wanted);
  };
  if (options.partitions == 0 || ranks % options.partitions != 0)
    refuse("partitions", options.partitions,
           "a divisor of the number of ranks, " + std::to_string(ranks));
  if (!std::has_single_bit(options.microbatches))
    refuse("microbatches", options.microbatches, "a power of two");
  const std::size_t replicas = ranks / options.partitions;
  if (!std::has_single_bit(replicas))
    refuse("ranks", ranks,
           "a power of two times the partitions, " + std::to_string(options.partitions));
  if (shards != 0 && options.microbatches > shards / replicas)
    refuse("micro-batches x replicas", options.microbatches * replicas,
           "at most the shards of a batch, " + std::to_string(shards));
}

class PipelineGroups {
 public:
  // Error train.options: partitions, micro-batches or ranks that do not fit together.
  explicit PipelineGroups(const TrainerOptions& options)
      : world_(options.communicator == nullptr ? alone_ : *options.communicator),
        partitions_(options.pipeline.partitions) {
    const auto ranks = static_cast<std::size_t>(world_.size());
    check_pipeline(options.pipeline, ranks, 0);
    replicas_ = ranks / partitions_;
    const Placement placement = options.pipeline.placement;
    const auto own = static_cast<std::size_t>(world_.rank());
    place_ = pipeline_place(own, ranks, partitions_, placement);
    const auto rank_of = [&](std::size_t stage, std::size_t replica) {
      return static_cast<int>(pipeline_rank({stage, replica}, ranks, partitions_, placement));
    };
    std::vector<int> stages, replicas;
    for (std::size_t i = 0; i < partitions_; ++i) stages.push_back(rank_of(i, place_.replica));
    for (std::size_t i = 0; i < replicas_; ++i) replicas.push_back(rank_of(place_.stage, i));
    stages_.emplace(world_, stages);
    same_stage_.emplace(world_, replicas);
    for (std::size_t i = 0; i < partitions_; ++i) first_of_.push_back(rank_of(i, 0));
  }

  Communicator& world() const { return world_; }
  // The stages of this rank's pipeline, in their order.
  Communicator& pipeline() { return *stages_; }
  // The replicas of this rank's stage.
  Communicator& replicas() { return *same_stage_; }
  std::size_t partitions() const { return partitions_; }
  std::size_t replica_count() const { return replicas_; }
  std::size_t stage() const { return place_.stage; }
  std::size_t replica() const { return place_.replica; }
  bool first_stage() const { return place_.stage == 0; }
  bool last_stage() const { return place_.stage + 1 == partitions_; }
  // The world rank of that stage's first replica.
  int first_of(std::size_t stage) const { return first_of_[stage]; }

  // True if `mine` is true on any rank of the world.
  bool any(bool mine) { return soma::detail::lowest_rank(world_, mine) >= 0; }

 private:
  AloneCommunicator alone_{};
  Communicator& world_;
  std::size_t partitions_, replicas_ = 1;
  PipelinePlace place_{};
  std::optional<GroupCommunicator> stages_{}, same_stage_{};
  std::vector<int> first_of_{};
};

}  // namespace soma::train
