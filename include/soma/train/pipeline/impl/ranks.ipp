#pragma once
// The functions of ranks.hpp.

#include <soma/train/pipeline/ranks.hpp>

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

SOMA_INLINE PipelineRanks::PipelineRanks(Context& context, const TrainerOptions& options)
    : context_(context),
      groups_(options),
      same_stage_(context, groups_.replicas(),
                  GradientReducerOptions{.bucket_bytes = options.reduce_bucket_bytes,
                                         .overlap = options.overlap,
                                         .keep_own_rows = options.shard_optimizer,
                                         .format = options.precision.reduction,
                                         .seed = options.seed}) {}

SOMA_INLINE void PipelineRanks::set_own(const Parameters& all, const Parameters& own) {
  all_ = &all;
  own_ = &own;
}

SOMA_INLINE int PipelineRanks::count() const { return groups().world().size(); }

SOMA_INLINE bool PipelineRanks::first() const { return groups().world().rank() == 0; }

SOMA_INLINE void PipelineRanks::barrier() { groups_.world().barrier(); }

SOMA_INLINE void PipelineRanks::abort(std::string_view reason) { groups_.world().abort(reason); }

SOMA_INLINE bool PipelineRanks::any(bool mine) { return groups_.any(mine); }

SOMA_INLINE void PipelineRanks::give_up_after(const StopFlag* stop, double seconds) {
  for (Communicator* each : {&groups_.world(), &groups_.pipeline(), &groups_.replicas()})
    each->give_up_after(stop, seconds);
}

SOMA_INLINE void PipelineRanks::check(const nn::Task& task,
                                      const optim::Optimizer* optimizer) const {
  same_stage_.check(task, optimizer);
}

SOMA_INLINE void PipelineRanks::join(PrecisionState& precision, optim::Optimizer& optimizer) {
  same_stage_.join(precision, optimizer);
}

SOMA_INLINE void PipelineRanks::note_graphs() { same_stage_.note_graphs(); }

SOMA_INLINE void PipelineRanks::compare_graphs() { same_stage_.compare_graphs(); }

SOMA_INLINE void PipelineRanks::begin(const RunDescription& run, const Parameters&) {
  agree(groups_.world(), run.make());
}

SOMA_INLINE bool PipelineRanks::from_first(bool mine) {
  std::uint8_t flag = mine ? 1 : 0;
  broadcast(groups_.world(), std::as_writable_bytes(std::span(&flag, 1)));
  return flag != 0;
}

SOMA_INLINE std::uint64_t PipelineRanks::hash_of_all(std::uint64_t mine) {
  std::uint64_t sum = same_stage_.hash_of_all(mine);
  all_reduce_sum(groups_.pipeline(), context_.heap(), std::span(&sum, 1));
  return sum;
}

SOMA_INLINE bool PipelineRanks::saves_parts() const {
  return has_stages() || same_stage_.saves_parts();
}

SOMA_INLINE bool PipelineRanks::writes_shared_states() const {
  return same_stage_.writes_shared_states();
}

SOMA_INLINE void PipelineRanks::check_store(CheckpointStore* store) {
  try_parts(groups_.world(), store, [this](bool mine) { return any(mine); });
}

SOMA_INLINE void PipelineRanks::save_parts(CheckpointStore* store,
                                           std::optional<std::uint64_t> step,
                                           Checkpoint& checkpoint) {
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
                                  index_of_part(static_cast<int>(groups_.replica()), replicas),
                              static_cast<std::size_t>(count())};
    take_part(checkpoint, CheckpointState::optimizer, shared ? rows : stage,
              shared || first_replica, parts);
    take_part(checkpoint, CheckpointState::precision, stage, first_replica, parts);
  }
  train::save_parts(groups_.world(), store, step, parts, [this](bool mine) { return any(mine); });
}

SOMA_INLINE bool PipelineRanks::load(Context& context, CheckpointStore* store, Which which,
                                     Checkpoint& checkpoint) {
  if (!has_stages()) return same_stage_.load(context, store, which, checkpoint);
  std::string place;
  if (first()) place = which == Which::latest ? store->find_latest(context) : store->find_best();
  place = soma::detail::broadcast_text(groups_.world(), std::move(place), 0);
  if (place.empty()) return false;
  checkpoint = store->load_named(context, place, OwnNames(*this));
  return true;
}

SOMA_INLINE bool PipelineRanks::OwnNames::wants(std::string_view name) const {
  return !ranks.is_foreign(name);
}

SOMA_INLINE bool PipelineRanks::has_stages() const { return groups_.partitions() > 1; }

SOMA_INLINE bool PipelineRanks::is_foreign(std::string_view name) const {
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

}  // namespace SOMA_NAMESPACE::train
