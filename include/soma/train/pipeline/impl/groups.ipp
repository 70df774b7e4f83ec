#pragma once
// The functions of groups.hpp.

#include <soma/train/pipeline/groups.hpp>

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

namespace SOMA_NAMESPACE::train {

SOMA_INLINE void check_pipeline(const PipelineOptions& options, std::size_t ranks,
                                std::size_t shards) {
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

SOMA_INLINE PipelineGroups::PipelineGroups(const TrainerOptions& options)
    : world_(options.communicator == nullptr ? alone_ : *options.communicator),
      partitions_(options.pipeline.partitions) {
  const auto ranks = static_cast<std::size_t>(world_.size());
  check_pipeline(options.pipeline, ranks, 0);
  replicas_ = ranks / partitions_;
  const Placement placement = options.pipeline.placement;
  const auto own = static_cast<std::size_t>(world_.rank());
  position_ = pipeline_position(own, ranks, partitions_, placement);
  const auto rank_of = [&](std::size_t stage, std::size_t replica) {
    return static_cast<int>(pipeline_rank({stage, replica}, ranks, partitions_, placement));
  };
  std::vector<int> stages, replicas;
  for (std::size_t i = 0; i < partitions_; ++i) stages.push_back(rank_of(i, position_.replica));
  for (std::size_t i = 0; i < replicas_; ++i) replicas.push_back(rank_of(position_.stage, i));
  stages_.emplace(world_, stages);
  same_stage_.emplace(world_, replicas);
  for (std::size_t i = 0; i < partitions_; ++i) first_of_.push_back(rank_of(i, 0));
}

SOMA_INLINE bool PipelineGroups::any(bool mine) {
  return soma::detail::lowest_rank(world_, mine) >= 0;
}

}  // namespace SOMA_NAMESPACE::train
