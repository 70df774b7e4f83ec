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

  int count() const override;
  bool first() const override;
  void barrier() override;
  void abort(std::string_view reason) override;
  bool any(bool mine) override;
  void give_up_after(const StopFlag* stop, double seconds) override;

  void check(const nn::Task& task, const optim::Optimizer* optimizer) const override;
  void join(PrecisionState& precision, optim::Optimizer& optimizer) override;
  // Stages have different graphs; the replicas of a stage have the same.
  void note_graphs() override;
  void compare_graphs() override;
  // Weights follow later, when the parameters of each stage are known (PipelineGradients::begin).
  void begin(const RunDescription& run, const Parameters&) override;
  bool from_first(bool mine) override;

  // With several stages, each stage writes and reads its own parameters.
  bool saves_parts() const override;
  void check_store(CheckpointStore* store) override;
  void save_parts(CheckpointStore* store, std::optional<std::uint64_t> step,
                  Checkpoint& checkpoint) override;
  bool load(Context& context, CheckpointStore* store, Which which, Checkpoint& checkpoint) override;

 private:
  struct OwnNames final : CheckpointNames {
    explicit OwnNames(const PipelineRanks& own) : ranks(own) {}
    bool wants(std::string_view name) const override;
    const PipelineRanks& ranks;
  };

  const PipelineGroups& groups() const { return groups_; }
  bool has_stages() const;

  // True if an entry of a checkpoint belongs to a parameter of another stage. The owner is the
  // parameter with the longest name that the entry's name begins with.
  bool is_foreign(std::string_view name) const;

  PipelineGroups groups_;
  ManyRanks same_stage_;
  const Parameters *all_ = nullptr, *own_ = nullptr;
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/pipeline/impl/ranks.ipp>
#endif
