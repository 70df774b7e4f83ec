#pragma once
// PipelineRanks: the other ranks of a pipeline, as the trainer's loop sees them: replicas of a
// stage do together what ManyRanks does, stages have different parameters.

#include <soma/parallel/broadcast_checkpoint.hpp>
#include <soma/train/many_ranks.hpp>
#include <soma/train/pipeline/groups.hpp>
#include <soma/train/save_part.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
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
      : context_(context),
        groups_(options),
        same_stage_(context, groups_.replicas(),
                    GradientReducerOptions{.bucket_bytes = options.reduce_bucket_bytes,
                                           .overlap = options.overlap,
                                           .keep_own_rows = options.shard_optimizer,
                                           .format = options.precision.reduction,
                                           .seed = options.seed}) {}

  PipelineGroups& groups() { return groups_; }
  // The replicas of this rank's stage.
  ManyRanks& same_stage() { return same_stage_; }
  // From now on checkpoints are those of a part of the parameters; both stay where they are.
  void set_own(const Parameters& all, const Parameters& own) {
    all_ = &all;
    own_ = &own;
  }

  int count() const override { return groups().world().size(); }
  bool first() const override { return groups().world().rank() == 0; }
  void barrier() override { groups_.world().barrier(); }
  void abort(std::string_view reason) override { groups_.world().abort(reason); }
  bool any(bool mine) override { return groups_.any(mine); }

  void check(const nn::Task& task, const optim::Optimizer* optimizer) const override {
    same_stage_.check(task, optimizer);
  }
  void join(PrecisionState& precision, optim::Optimizer& optimizer) override {
    same_stage_.join(precision, optimizer);
  }
  // Weights follow when it is known which are whose (PipelineGradients::begin).
  void begin(const RunDescription& run, const Parameters&) override {
    agree(groups_.world(), run.make());
  }
  bool from_first(bool mine) override {
    std::uint8_t flag = mine ? 1 : 0;
    broadcast(groups_.world(), std::as_writable_bytes(std::span(&flag, 1)));
    return flag != 0;
  }
  Checkpoint from_first(Checkpoint mine) override {
    return broadcast_checkpoint(groups_.world(), context_, mine,
                                [this](const std::string& name) { return !is_foreign(name); });
  }

  bool shares_states() const override { return same_stage_.shares_states(); }
  void check_store(CheckpointStore* store) override {
    save_parts(store, 0, {});
    if (first()) store->drop_parts();
  }
  void save_states(CheckpointStore* store, std::uint64_t step, const optim::Optimizer& optimizer,
                   Checkpoint& checkpoint) override {
    StateDict own = optimizer.state();
    if (!shares_states()) {
      checkpoint.optimizer = gather(std::move(own));
      return;
    }
    add_empty(own);
    save_parts(store, step, own);
    checkpoint.optimizer_parts = static_cast<std::size_t>(count());
  }
  // What stages have different parts of, together on the first rank: tensor by tensor from the
  // first replica of each. Elsewhere what it was.
  StateDict gather(StateDict own) override {
    Communicator& world = groups_.world();
    for (std::size_t stage = 1; stage < groups_.partitions(); ++stage) {
      const int from = groups_.first_of(stage);
      if (world.rank() == from) send_state(world, own);
      if (world.rank() == 0) receive_state(world, from, own);
    }
    return own;
  }

 private:
  const PipelineGroups& groups() const { return groups_; }

  // Whether an entry of a checkpoint belongs to a parameter of another stage: by the longest name
  // of a parameter that it begins with.
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

  // ---- states, from rank to rank: names, types and shapes, then elements

  static std::string outline_of(const StateDict& state) {
    std::vector<std::string> words;
    for (const auto& [name, tensor] : state) {
      words.push_back(name);
      words.push_back(std::to_string(static_cast<unsigned>(tensor.dtype())));
      std::vector<std::string> sizes;
      for (const std::size_t size : tensor.shape()) sizes.push_back(std::to_string(size));
      words.push_back(soma::detail::join(sizes));
      // Numbers of steps go with it.
      const bool steps = tensor.rank() == 0 && tensor.dtype() == DType::int64;
      words.push_back(steps ? std::to_string(*tensor.data<std::int64_t>()) : std::string());
    }
    return soma::detail::join(words);
  }
  template <class Each>
  static void for_outlines(std::string_view text, const Each& each) {
    const std::vector<std::string> words = soma::detail::split(text);
    for (std::size_t i = 0; i + 3 < words.size(); i += 4) {
      std::vector<std::size_t> sizes;
      for (const std::string& size : soma::detail::split(words[i + 2]))
        sizes.push_back(static_cast<std::size_t>(soma::detail::count_of(size)));
      each(words[i], static_cast<DType>(soma::detail::count_of(words[i + 1])),
           Shape(std::span<const std::size_t>(sizes)), words[i + 3]);
    }
  }
  void send_state(Communicator& world, const StateDict& state) const {
    const std::string text = outline_of(state);
    const std::uint64_t length = text.size();
    world.send(0, collective_tag, std::as_bytes(std::span(&length, 1)));
    world.send(0, collective_tag, std::as_bytes(std::span(text)));
    for (const auto& [name, tensor] : state) {
      const Tensor whole = contiguous(context_, tensor);
      if (whole.bytes() != 0) world.send(0, collective_tag, {whole.raw(), whole.bytes()});
    }
  }
  void receive_state(Communicator& world, int from, StateDict& all) const {
    std::uint64_t length = 0;
    world.receive(from, collective_tag, std::as_writable_bytes(std::span(&length, 1)));
    std::string text(static_cast<std::size_t>(length), ' ');
    world.receive(from, collective_tag, std::as_writable_bytes(std::span(text)));
    for_outlines(text,
                 [&](const std::string& name, DType dtype, const Shape& shape, const std::string&) {
                   const Tensor tensor = Tensor::empty(context_, shape, dtype);
                   if (tensor.bytes() != 0)
                     world.receive(from, collective_tag, {tensor.mutable_raw(), tensor.bytes()});
                   all.set(name, tensor);
                 });
  }

  // ---- parts of a checkpoint

  // The entries of other stages, with no rows: then the parts of all ranks have the same names.
  void add_empty(StateDict& own) {
    Communicator& pipeline = groups_.pipeline();
    const std::string mine = outline_of(own);
    for (int stage = 0; stage < pipeline.size(); ++stage) {
      const bool root = stage == pipeline.rank();
      const std::string text =
          soma::detail::broadcast_text(pipeline, root ? mine : std::string(), stage);
      if (root) continue;
      for_outlines(text, [&](const std::string& name, DType dtype, const Shape& shape,
                             const std::string& steps) {
        if (shape.rank() == 0)
          own.set(name, Tensor::scalar(context_,
                                       static_cast<std::int64_t>(soma::detail::count_of(steps))));
        else
          own.set(name, Tensor::empty(context_, shape.with(0, 0), dtype));
      });
    }
  }
  void save_parts(CheckpointStore* store, std::uint64_t step, const StateDict& own) {
    const auto replicas = static_cast<int>(groups_.replica_count());
    const std::size_t place = groups_.stage() * groups_.replica_count() +
                              place_of_part(static_cast<int>(groups_.replica()), replicas);
    save_part(groups_.world(), store, step, {place, static_cast<std::size_t>(count())}, own,
              [this](bool mine) { return any(mine); });
  }

  Context& context_;
  PipelineGroups groups_;
  ManyRanks same_stage_;
  const Parameters *all_ = nullptr, *own_ = nullptr;
};

}  // namespace soma::train
