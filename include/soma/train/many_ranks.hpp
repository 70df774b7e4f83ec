#pragma once
// ManyRanks: the implementation of Ranks for several ranks that train together, over a
// Communicator.

#include <soma/base/owned.hpp>
#include <soma/data/part.hpp>
#include <soma/ops/basic.hpp>
#include <soma/ops/device.hpp>
#include <soma/ops/graph_log.hpp>
#include <soma/parallel/agreement.hpp>
#include <soma/parallel/broadcast_checkpoint.hpp>
#include <soma/parallel/gradient_reducer.hpp>
#include <soma/parallel/partition.hpp>
#include <soma/parallel/row_partition.hpp>
#include <soma/runtime/heap_vector.hpp>
#include <soma/runtime/shared.hpp>
#include <soma/train/evaluate_ranks.hpp>
#include <soma/train/options.hpp>
#include <soma/train/ranks.hpp>
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

class ManyRanks final : public Ranks {
 public:
  // Error parallel.ranks.
  ManyRanks(Context& context, Communicator& communicator, const GradientReducerOptions& options)
      : context_(context),
        communicator_(communicator),
        shards_states_(options.keep_own_rows),
        reducer_(context, communicator, options) {}

  int count() const override { return communicator_.size(); }
  bool first() const override { return communicator_.rank() == 0; }
  void barrier() override { communicator_.barrier(); }
  void abort(std::string_view reason) override { communicator_.abort(reason); }
  void give_up_after(const StopFlag* stop, double seconds) override {
    communicator_.give_up_after(stop, seconds);
  }
  bool any(bool mine) override {
    std::uint64_t bit = mine ? 1 : 0;
    all_reduce_or(communicator_, context_.heap(), {&bit, 1});
    return bit != 0;
  }

  // ---- beginning and resuming

  void check(const nn::Task& task, const optim::Optimizer* optimizer) const override {
    if (!task.takes_parts())
      fail(error_id::train_options, "Trainer", "task", "a task whose loss is always a mean",
           "a task that several ranks can share (Task::takes_parts)");
    if (!shards_states_ || optimizer == nullptr || optimizer->steps_rows_alone()) return;
    Record settings;
    optimizer->describe(settings);
    const RecordValue* name = settings.find("optimizer");
    fail(error_id::train_options, "Trainer", "shard_optimizer",
         "true, with " + (name == nullptr ? std::string("this optimizer") : to_text(*name)),
         "an optimizer that steps rows alone (Optimizer::steps_rows_alone)");
  }
  void join(PrecisionState& precision, optim::Optimizer& optimizer) override {
    precision.use_parts(maximum());
    if (!shards_states_) return;
    optimizer.keep_rows([&](const Parameter& parameter) {
      const Part own = rows_of(parameter).part(communicator_.rank(), count());
      return std::pair(own.begin, own.end());
    });
  }
  void begin(const RunDescription& run, const Parameters& parameters) override {
    agree(communicator_, run.make());
    for (const Parameter& parameter : parameters) {
      const Tensor value = parameter.value();
      if (value.bytes() != 0)
        broadcast_checked(communicator_, {value.mutable_raw(), value.bytes()}, parameter.name);
    }
  }
  bool from_first(bool mine) override {
    std::uint8_t flag = mine ? 1 : 0;
    broadcast(communicator_, std::as_writable_bytes(std::span(&flag, 1)));
    return flag != 0;
  }

  // Maxima over all ranks, which scales depend on.
  GlobalMaximum maximum() {
    return {this, [](void* self, std::span<float> values) {
              auto& ranks = *static_cast<ManyRanks*>(self);
              all_reduce_max(ranks.communicator_, ranks.context_.heap(), values);
            }};
  }

  // ---- a step

  void begin_step(std::uint64_t step) override { reducer_.begin_step(step); }
  data::Batch part_of(const data::Batch& batch) override {
    const Part own = owned_shards(batch.inputs.sequences.shards(), communicator_.rank(), count());
    return data::part_of(context_, batch, own.begin, own.count);
  }
  float weight_of(float whole, double count) const override {
    return count == 0 ? 0 : whole / static_cast<float>(count);
  }
  GradientReceiver* receiver() override { return &reducer_; }
  BatchSums* batch_sums() override { return &batch_sums_; }
  void finish_gradients() override { reducer_.finish(); }
  ReductionTimes reduction_times() const override { return reducer_.times(); }
  // In the order of the shards.
  double total_of(std::span<const BatchLoss> losses) override {
    const FloatEnvironment environment;
    std::vector<float> totals;
    for (const BatchLoss& loss : losses) totals.push_back(loss.value);
    all_reduce(communicator_, context_.heap(), std::span<float>(totals));
    double total = 0;
    for (std::size_t i = 0; i < losses.size(); ++i)
      if (const double count = losses[i].count; count != 0)
        total += static_cast<double>(totals[i] / static_cast<float>(count)) * count;
    return total;
  }
  void sum(std::span<std::uint64_t> numbers) override {
    all_reduce_sum(communicator_, context_.heap(), numbers);
  }
  double gradient_norm(Context& context, const Parameters& parameters) override {
    if (!shards_states_) return optim::gradient_norm(context, parameters);
    return optim::gradient_norm(context, parameters, [&](std::span<double> sums) {
      all_reduce_parts(communicator_, context_.heap(), sums);
    });
  }
  void gather_rows(const Parameters& parameters) override {
    if (!shards_states_) return;
    constexpr std::size_t at_once = 16;
    for (std::size_t begin = 0; begin < parameters.size(); begin += at_once) {
      HeapVector<Shared<RowGather>> gathers(context_.heap());
      const std::size_t end = (std::min)(parameters.size(), begin + at_once);
      for (std::size_t i = begin; i < end; ++i)
        gathers.push_back(Shared<RowGather>::make(context_.heap(), communicator_,
                                                  static_cast<int>(i - begin), parameters[i]));
      for (const Shared<RowGather>& gather : gathers) gather->finish();
    }
  }

  void note_graphs() override {
    if (GraphLog* log = graph_log()) log->keep(true);
  }
  void compare_graphs() override {
    GraphLog* const log = graph_log();
    const std::uint64_t hash = log == nullptr ? 0 : log->hash();
    // Where all hashes are equal, no bit is set in one of them and not set in another.
    std::uint64_t bits[] = {hash, ~hash};
    all_reduce_or(communicator_, context_.heap(), bits);
    if ((bits[0] & bits[1]) != 0) {
      Record graphs("graphs of this step");
      if (log != nullptr)
        for (const GraphLog::Call& call : log->calls())
          graphs.set("graph " + std::to_string(call.graph) + " call " + std::to_string(call.number),
                     call.words);
      graphs.set("hash of all calls", hash);
      agree(communicator_, graphs);
    }
    if (log != nullptr) log->keep(false);
  }

  // A rank evaluates whole batches: their maxima are its own.
  Evaluation evaluate(Context& context, nn::Task& task, data::BatchSource& source,
                      PrecisionState& precision) override {
    precision.set_maximum({});
    Evaluation evaluation = train::evaluate(context, task, source, &precision, communicator_);
    precision.set_maximum(maximum());
    return evaluation;
  }

  // ---- checkpoints

  bool saves_parts() const override { return shards_states_ && count() > 1; }
  void check_store(CheckpointStore* store) override {
    try_parts(communicator_, store, [this](bool mine) { return any(mine); });
  }
  // Each rank's rows of the moments. The best checkpoint has no moments.
  void save_parts(CheckpointStore* store, std::optional<std::uint64_t> step,
                  Checkpoint& checkpoint) override {
    if (!saves_parts() || !step) return;
    std::vector<PartToSave> parts;
    take_part(checkpoint, CheckpointState::optimizer,
              {place_of_part(communicator_.rank(), count()), static_cast<std::size_t>(count())},
              true, parts);
    train::save_parts(communicator_, store, step, parts, [this](bool mine) { return any(mine); });
  }
  bool load(Context& context, CheckpointStore* store, Which which,
            Checkpoint& checkpoint) override {
    const bool found = first() && Ranks::load(context, store, which, checkpoint);
    if (!from_first(found)) return false;
    checkpoint = broadcast_checkpoint(communicator_, context_, checkpoint);
    return true;
  }

 private:
  // nullptr: this rank's device makes no graphs.
  GraphLog* graph_log() const {
    Device* const device = context_.device();
    return device == nullptr ? nullptr : device->graph_log();
  }
  static RowPartition rows_of(const Parameter& parameter) {
    return RowPartition(parameter.var.shape(), parameter.first_row, parameter.last_row);
  }

  class SumsOfRanks final : public BatchSums {
   public:
    explicit SumsOfRanks(ManyRanks& ranks) : ranks_(ranks) {}
    void add(std::span<float> numbers) override {
      all_reduce(ranks_.communicator_, ranks_.context_.heap(), numbers);
    }

   private:
    ManyRanks& ranks_;
  };

  // Not movable: messages in transit refer to it.
  class RowGather final : public Counted {
   public:
    RowGather(Heap& heap, Communicator& communicator, int tag, const Parameter& parameter)
        : Counted(heap),
          values_(parameter.value()),
          rows_(rows_of(parameter)),
          gather_(communicator, tag) {
      if (values_.bytes() != 0)
        gather_.start({values_.mutable_raw(), values_.bytes()},
                      rows_.row_elements() * size_of(values_.dtype()), rows_);
    }
    void finish() { gather_.finish(); }

   private:
    Tensor values_;
    RowPartition rows_;
    AllGather gather_;
  };

  Context& context_;
  Communicator& communicator_;
  bool shards_states_;
  GradientReducer reducer_;
  SumsOfRanks batch_sums_{*this};
};

inline Owned<Ranks> make_ranks(Context& context, const TrainerOptions& options) {
  if (options.communicator == nullptr) return Owned<Ranks>::make<Ranks>();
  return Owned<Ranks>::make<ManyRanks>(
      context, *options.communicator,
      GradientReducerOptions{.bucket_bytes = options.reduce_bucket_bytes,
                             .overlap = options.overlap,
                             .keep_own_rows = options.shard_optimizer,
                             .format = options.precision.reduction,
                             .seed = options.seed});
}

}  // namespace soma::train
