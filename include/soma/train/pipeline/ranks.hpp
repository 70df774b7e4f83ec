#pragma once
// PipelineRanks: the implementation of Ranks for a pipeline. The replicas of a stage work together
// as in ManyRanks; stages have different parameters.

#include <soma/train/many_ranks.hpp>
#include <soma/train/pipeline/groups.hpp>
#include <soma/train/save_part.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

class PipelineRanks final : public Ranks {
 public:
  // Errors train.options, parallel.ranks.
  PipelineRanks(Context& context, const TrainerOptions& options);

  PipelineGroups& groups() { return groups_; }
  // The replicas of this rank's stage.
  ManyRanks& same_stage() { return same_stage_; }
  // From now on checkpoints cover a part of the parameters; both lists must stay in place.
  void set_own(const Parameters& all, const Parameters& own);

  SOMA_INLINE int count() const override;
  SOMA_INLINE bool first() const override;
  SOMA_INLINE void barrier() override;
  SOMA_INLINE void abort(std::string_view reason) override;
  SOMA_INLINE bool any(bool mine) override;
  SOMA_INLINE void give_up_after(const StopFlag* stop, double seconds) override;

  SOMA_INLINE void check(const nn::Task& task, const optim::Optimizer* optimizer) const override;
  SOMA_INLINE void join(PrecisionState& precision, optim::Optimizer& optimizer) override;
  // Stages have different graphs; the replicas of a stage have the same.
  SOMA_INLINE void note_graphs() override;
  SOMA_INLINE void compare_graphs() override;
  // Weights follow later, when the parameters of each stage are known (PipelineGradients::begin).
  SOMA_INLINE void begin(const RunDescription& run, const Parameters&) override;
  SOMA_INLINE bool from_first(bool mine) override;
  // The sum over the stages.
  SOMA_INLINE std::uint64_t hash_of_all(std::uint64_t mine) override;

  // With several stages, each stage writes and reads its own parameters.
  SOMA_INLINE bool saves_parts() const override;
  SOMA_INLINE bool writes_shared_states() const override;
  SOMA_INLINE void check_store(CheckpointStore* store) override;
  SOMA_INLINE void save_parts(CheckpointStore* store, std::optional<std::uint64_t> step,
                              Checkpoint& checkpoint) override;
  SOMA_INLINE bool load(Context& context, CheckpointStore* store, Which which,
                        Checkpoint& checkpoint) override;

 private:
  struct OwnNames final : CheckpointNames {
    explicit OwnNames(const PipelineRanks& own) : ranks(own) {}
    SOMA_INLINE bool wants(std::string_view name) const override;
    const PipelineRanks& ranks;
  };

  const PipelineGroups& groups() const { return groups_; }
  bool has_stages() const;

  // True if an entry of a checkpoint belongs to a parameter of another stage. The owner is the
  // parameter with the longest name that the entry's name begins with.
  bool is_foreign(std::string_view name) const;

  Context& context_;
  PipelineGroups groups_;
  ManyRanks same_stage_;
  const Parameters *all_ = nullptr, *own_ = nullptr;
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/pipeline/impl/ranks.ipp>
#endif
