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

namespace SOMA_NAMESPACE::train {

// Checks that `ranks` ranks can form this pipeline, and a batch of `shards` shards its
// micro-batches (0: not known yet). Error train.options.
void check_pipeline(const PipelineOptions& options, std::size_t ranks, std::size_t shards);

class PipelineGroups {
 public:
  // Error train.options: partitions, micro-batches or ranks that do not fit together.
  explicit PipelineGroups(const TrainerOptions& options);

  Communicator& world() const { return world_; }
  // The stages of this rank's pipeline, in their order.
  Communicator& pipeline() { return *stages_; }
  // The replicas of this rank's stage.
  Communicator& replicas() { return *same_stage_; }
  std::size_t partitions() const { return partitions_; }
  std::size_t replica_count() const { return replicas_; }
  std::size_t stage() const { return position_.stage; }
  std::size_t replica() const { return position_.replica; }
  bool last_stage() const { return position_.stage + 1 == partitions_; }
  // The world rank of that stage's first replica.
  int first_of(std::size_t stage) const { return first_of_[stage]; }

  // True if `mine` is true on any rank of the world.
  bool any(bool mine);

 private:
  AloneCommunicator alone_{};
  Communicator& world_;
  std::size_t partitions_, replicas_ = 1;
  PipelinePosition position_{};
  std::optional<GroupCommunicator> stages_{}, same_stage_{};
  std::vector<int> first_of_{};
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/pipeline/impl/groups.ipp>
#endif
