// A small classifier and sequences that it can learn to tell apart: enough for a trainer.
#pragma once

#include <soma/data/token_source.hpp>
#include <soma/models/bert.hpp>
#include <soma/soma.hpp>
#include <soma/state/join_parts.hpp>
#include <soma/train/trainer.hpp>

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace soma_test {

// The class is which of two tokens stands last.
// `equal` 0: of 3 to 13 words.
inline soma::data::TokenLists token_lists(std::size_t count, std::size_t equal = 0) {
  soma::data::TokenLists lists;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t length = equal != 0 ? equal : 3 + i * 7 % 11;
    const bool positive = (i * 2654435761u >> 7 & 1) != 0;
    std::vector<std::int32_t> ids{1};
    for (std::size_t j = 0; j < length; ++j)
      ids.push_back(static_cast<std::int32_t>(4 + (i * 31 + j * 17) % 20));
    ids.push_back(positive ? 2 : 3);
    lists.add(ids, positive ? 1 : 0);
  }
  return lists;
}

inline soma::models::BertConfig small_config() {
  soma::models::BertConfig config;
  config.vocabulary = 24;
  config.width = 32;
  config.layers = 2;
  config.heads = 2;
  config.inner = 64;
  config.positions = 32;
  return config;
}

struct SmallModel {
  explicit SmallModel(soma::Context& context, std::uint64_t seed = 7)
      : model(soma::nn::Scope{context, seed}, small_config(), 2), task(model, 2) {}
  soma::models::BertClassifier model;
  soma::nn::ClassificationTask<soma::models::BertClassifier> task;
};

// A number that differs if a bit of a weight does.
inline std::uint64_t bits_of(soma::Context& context, const soma::Parameters& parameters) {
  soma::data::ContentHash hash;
  for (const auto& [name, tensor] : soma::nn::state_dict(parameters)) {
    const soma::Tensor values = soma::contiguous(context, tensor);
    hash.add_text(name);
    hash.add_bytes({values.raw(), values.bytes()});
  }
  return hash.value();
}

// Keeps checkpoints in memory, as a folder would. Ranks that are threads save their parts to the
// same one, and read from it what they need.
class MemoryStore final : public soma::CheckpointStore {
 public:
  explicit MemoryStore(soma::Context& context) : context_(context) {}
  void save(std::uint64_t, const soma::Checkpoint& checkpoint) override {
    saved_ = take(checkpoint, latest_);
  }
  void save_best(const soma::Checkpoint& checkpoint) override {
    has_best_ = take(checkpoint, best_);
  }
  std::string begin_parts(std::optional<std::uint64_t> step) override {
    drop_parts();
    return step ? std::to_string(*step) : "best";
  }
  void save_part(const std::string&, soma::CheckpointState which, const soma::CheckpointPart& part,
                 const soma::StateDict& state) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<soma::StateDict>& parts = parts_of(which);
    parts.resize(part.count);
    parts.at(part.index) = copy(context_, state);
  }
  void drop_parts() override { parts_ = {}; }
  bool load_latest(soma::Context&, soma::Checkpoint& checkpoint) override {
    checkpoint = latest_;
    return saved_;
  }
  bool load_best(soma::Context&, soma::Checkpoint& checkpoint) override {
    checkpoint = best_;
    return has_best_;
  }
  std::string find_latest(soma::Context&) override { return saved_ ? "latest" : ""; }
  std::string find_best() override { return has_best_ ? "best" : ""; }
  soma::Checkpoint load_named(soma::Context& context, const std::string& place,
                              const soma::CheckpointNames& names) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    const soma::Checkpoint& from = place == "best" ? best_ : latest_;
    const auto wanted = [&](const std::string& name) { return names.wants(name); };
    soma::Checkpoint checkpoint;
    checkpoint.weights = copy(context, from.weights, wanted);
    checkpoint.optimizer = copy(context, from.optimizer, wanted);
    checkpoint.precision = copy(context, from.precision);
    checkpoint.task = copy(context, from.task);
    checkpoint.progress = from.progress;
    checkpoint.identity = from.identity;
    return checkpoint;
  }

 private:
  static bool all(const std::string&) { return true; }
  template <class Wanted = bool (*)(const std::string&)>
  static soma::StateDict copy(soma::Context& context, const soma::StateDict& state,
                              const Wanted& wanted = &all) {
    soma::StateDict copied;
    for (const auto& [name, tensor] : state)
      if (wanted(name)) copied.set(name, soma::clone(context, tensor));
    return copied;
  }
  std::vector<soma::StateDict>& parts_of(soma::CheckpointState which) {
    return parts_[static_cast<std::size_t>(which)];
  }
  // Returns true if no part was missing.
  bool take(const soma::Checkpoint& from, soma::Checkpoint& to) {
    bool whole = true;
    to.progress = from.progress;
    to.identity = from.identity;
    for (const soma::CheckpointState which : soma::all_checkpoint_states) {
      whole = whole && parts_of(which).size() == from.parts[which];
      to.state(which) = from.parts[which] == 0 ? copy(context_, from.state(which))
                                               : soma::join_parts(context_, parts_of(which));
    }
    drop_parts();
    return whole;
  }
  soma::Context& context_;
  std::mutex mutex_;
  std::array<std::vector<soma::StateDict>, soma::all_checkpoint_states.size()> parts_{};
  soma::Checkpoint latest_{}, best_{};
  bool saved_ = false, has_best_ = false;
};

// Stops a run after that many steps, and remembers all of them.
struct Follower final : soma::train::Callback {
  explicit Follower(std::uint64_t stop_after = 0) : stop_at(stop_after) {}
  void on_step(const soma::train::StepInfo& step) override {
    steps.push_back(step);
    if (step.step == stop_at) stop.request();
  }
  void on_evaluation(const soma::train::EvaluationInfo& info) override {
    evaluated_at.push_back(info.step);
  }
  std::uint64_t stop_at;
  soma::train::StopFlag stop;
  std::vector<soma::train::StepInfo> steps;
  std::vector<std::uint64_t> evaluated_at;
};

}  // namespace soma_test
