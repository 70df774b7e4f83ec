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

namespace soma::train {

class PipelineRanks final : public Ranks {
 public:
  // Errors train.options, parallel.ranks.
  PipelineRanks(Context& context, const TrainerOptions& options)
      : groups_(options),
        same_stage_(context, groups_.replicas(),
                    GradientReducerOptions{.bucket_bytes = options.reduce_bucket_bytes,
                                           .overlap = options.overlap,
                                           .keep_own_rows = options.shard_optimizer,
                                           .format = options.precision.reduction,
                                           .seed = options.seed}) {}

  PipelineGroups& groups() { return groups_; }
  // The replicas of this rank's stage.
  ManyRanks& same_stage() { return same_stage_; }
  // From now on checkpoints cover a part of the parameters; both lists must stay in place.
  void set_own(const Parameters& all, const Parameters& own) {
    all_ = &all;
    own_ = &own;
  }

  int count() const override { return groups().world().size(); }
  bool first() const override { return groups().world().rank() == 0; }
  void barrier() override { groups_.world().barrier(); }
  void abort(std::string_view reason) override { groups_.world().abort(reason); }
  bool any(bool mine) override { return groups_.any(mine); }
  void give_up_after(const StopFlag* stop, double seconds) override {
    for (Communicator* each : {&groups_.world(), &groups_.pipeline(), &groups_.replicas()})
      each->give_up_after(stop, seconds);
  }

  void check(const nn::Task& task, const optim::Optimizer* optimizer) const override {
    same_stage_.check(task, optimizer);
  }
  void join(PrecisionState& precision, optim::Optimizer& optimizer) override {
    same_stage_.join(precision, optimizer);
  }
  // Stages have different graphs; the replicas of a stage have the same.
  void note_graphs() override { same_stage_.note_graphs(); }
  void compare_graphs() override { same_stage_.compare_graphs(); }
  // Weights follow later, when the parameters of each stage are known (PipelineGradients::begin).
  void begin(const RunDescription& run, const Parameters&) override {
    agree(groups_.world(), run.make());
  }
  bool from_first(bool mine) override {
    std::uint8_t flag = mine ? 1 : 0;
    broadcast(groups_.world(), std::as_writable_bytes(std::span(&flag, 1)));
    return flag != 0;
  }

  // With several stages, each stage writes and reads its own parameters.
  bool saves_parts() const override { return has_stages() || same_stage_.saves_parts(); }
  void check_store(CheckpointStore* store) override {
    try_parts(groups_.world(), store, [this](bool mine) { return any(mine); });
  }
  void save_parts(CheckpointStore* store, std::optional<std::uint64_t> step,
                  Checkpoint& checkpoint) override {
    if (!has_stages()) return same_stage_.save_parts(store, step, checkpoint);
    // A stage's weights and scales are the same on its replicas, and so are its moments unless
    // replicas share them: the first replica writes.
    const CheckpointPart stage{groups_.stage(), groups_.partitions()};
    const bool first_replica = groups_.replica() == 0;
    std::vector<PartToSave> parts;
    take_part(checkpoint, CheckpointState::weights, stage, first_replica, parts);
    if (step) {
      const bool shared = same_stage_.saves_parts();
      const auto replicas = static_cast<int>(groups_.replica_count());
      const CheckpointPart rows{groups_.stage() * groups_.replica_count() +
                                    place_of_part(static_cast<int>(groups_.replica()), replicas),
                                static_cast<std::size_t>(count())};
      take_part(checkpoint, CheckpointState::optimizer, shared ? rows : stage,
                shared || first_replica, parts);
      take_part(checkpoint, CheckpointState::precision, stage, first_replica, parts);
    }
    train::save_parts(groups_.world(), store, step, parts, [this](bool mine) { return any(mine); });
  }
  bool load(Context& context, CheckpointStore* store, Which which,
            Checkpoint& checkpoint) override {
    if (!has_stages()) return same_stage_.load(context, store, which, checkpoint);
    std::string place;
    if (first()) place = which == Which::latest ? store->find_latest(context) : store->find_best();
    place = soma::detail::broadcast_text(groups_.world(), std::move(place), 0);
    if (place.empty()) return false;
    checkpoint = store->load_named(context, place, OwnNames(*this));
    return true;
  }

 private:
  struct OwnNames final : CheckpointNames {
    explicit OwnNames(const PipelineRanks& own) : ranks(own) {}
    bool wants(std::string_view name) const override { return !ranks.is_foreign(name); }
    const PipelineRanks& ranks;
  };

  const PipelineGroups& groups() const { return groups_; }
  bool has_stages() const { return groups_.partitions() > 1; }

  // True if an entry of a checkpoint belongs to a parameter of another stage. The owner is the
  // parameter with the longest name that the entry's name begins with.
  bool is_foreign(std::string_view name) const {
    if (all_ == nullptr) return false;
    const Parameter* owner = nullptr;
    for (const Parameter& parameter : *all_) {
      const std::string_view own = parameter.name;
      const bool fits = name == own || (name.size() > own.size() && name.starts_with(own) &&
                                        name[own.size()] == '.');
      if (fits && (owner == nullptr || owner->name.size() < own.size())) owner = &parameter;
    }
    return owner != nullptr && std::none_of(own_->begin(), own_->end(), [&](const Parameter& mine) {
             return mine.name == owner->name;
           });
  }

  PipelineGroups groups_;
  ManyRanks same_stage_;
  const Parameters *all_ = nullptr, *own_ = nullptr;
};

}  // namespace soma::train
