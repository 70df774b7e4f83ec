#pragma once
// The functions of many_ranks.hpp.

#include <soma/train/many_ranks.hpp>

#include <soma/base/owned.hpp>
#include <soma/data/part.hpp>
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

namespace SOMA_NAMESPACE::train {

SOMA_INLINE ManyRanks::ManyRanks(Context& context, Communicator& communicator,
                                 const GradientReducerOptions& options)
    : context_(context),
      communicator_(communicator),
      shards_states_(options.keep_own_rows),
      reducer_(context, communicator, options) {}

SOMA_INLINE int ManyRanks::count() const { return communicator_.size(); }

SOMA_INLINE bool ManyRanks::first() const { return communicator_.rank() == 0; }

SOMA_INLINE void ManyRanks::barrier() { communicator_.barrier(); }

SOMA_INLINE void ManyRanks::abort(std::string_view reason) { communicator_.abort(reason); }

SOMA_INLINE void ManyRanks::give_up_after(const StopFlag* stop, double seconds) {
  communicator_.give_up_after(stop, seconds);
}

SOMA_INLINE bool ManyRanks::any(bool mine) {
  std::uint64_t bit = mine ? 1 : 0;
  all_reduce_or(communicator_, context_.heap(), {&bit, 1});
  return bit != 0;
}

SOMA_INLINE void ManyRanks::check(const nn::Task& task, const optim::Optimizer* optimizer) const {
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

SOMA_INLINE void ManyRanks::join(PrecisionState& precision, optim::Optimizer& optimizer) {
  precision.use_parts(maximum());
  if (!shards_states_) return;
  optimizer.keep_rows([&](const Parameter& parameter) {
    const Part own = rows_of(parameter).part(communicator_.rank(), count());
    return std::pair(own.begin, own.end());
  });
}

SOMA_INLINE void ManyRanks::begin(const RunDescription& run, const Parameters& parameters) {
  agree(communicator_, run.make());
  for (const Parameter& parameter : parameters) {
    if (parameter.var.frozen()) continue;
    const Tensor value = parameter.value();
    if (value.bytes() != 0)
      broadcast_checked(communicator_, {value.mutable_raw(), value.bytes()}, parameter.name);
  }
}

SOMA_INLINE bool ManyRanks::from_first(bool mine) {
  std::uint8_t flag = mine ? 1 : 0;
  broadcast(communicator_, std::as_writable_bytes(std::span(&flag, 1)));
  return flag != 0;
}

SOMA_INLINE std::uint64_t ManyRanks::hash_of_all(std::uint64_t mine) {
  Record frozen("frozen parameters");
  frozen.set("frozen.values", mine);
  agree(communicator_, frozen);
  return mine;
}

SOMA_INLINE GlobalMaximum ManyRanks::maximum() {
  return {this, [](void* self, std::span<float> values) {
            auto& ranks = *static_cast<ManyRanks*>(self);
            all_reduce_max(ranks.communicator_, ranks.context_.heap(), values);
          }};
}

SOMA_INLINE void ManyRanks::begin_step(std::uint64_t step, DrawMapping mapping) {
  reducer_.begin_step(step, mapping);
}

SOMA_INLINE data::Batch ManyRanks::part_of(const data::Batch& batch) {
  const Part own = owned_shards(batch.inputs.sequences.shards(), communicator_.rank(), count());
  return data::part_of(context_, batch, own.begin, own.count);
}

SOMA_INLINE float ManyRanks::weight_of(float whole, double count) const {
  return count == 0 ? 0 : whole / static_cast<float>(count);
}

SOMA_INLINE void ManyRanks::finish_gradients() { reducer_.finish(); }

SOMA_INLINE ReductionTimes ManyRanks::reduction_times() const { return reducer_.times(); }

SOMA_INLINE double ManyRanks::total_of(std::span<const BatchLoss> losses) {
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

SOMA_INLINE void ManyRanks::sum(std::span<std::uint64_t> numbers) {
  all_reduce_sum(communicator_, context_.heap(), numbers);
}

SOMA_INLINE double ManyRanks::gradient_norm(Context& context, const Parameters& parameters) {
  if (!shards_states_) return optim::gradient_norm(context, parameters);
  return optim::gradient_norm(context, parameters, [&](std::span<double> sums) {
    all_reduce_parts(communicator_, context_.heap(), sums);
  });
}

SOMA_INLINE void ManyRanks::gather_rows(const Parameters& parameters) {
  if (!shards_states_) return;
  constexpr std::size_t at_once = 16;
  for (std::size_t begin = 0; begin < parameters.size(); begin += at_once) {
    HeapVector<Shared<RowGather>> gathers(context_.heap());
    const std::size_t end = (std::min)(parameters.size(), begin + at_once);
    for (std::size_t i = begin; i < end; ++i)
      if (!parameters[i].var.frozen())
        gathers.push_back(Shared<RowGather>::make(context_.heap(), communicator_,
                                                  static_cast<int>(i - begin), parameters[i]));
    for (const Shared<RowGather>& gather : gathers) gather->finish();
  }
}

SOMA_INLINE void ManyRanks::note_graphs() {
  if (GraphLog* log = graph_log()) log->keep(true);
}

SOMA_INLINE void ManyRanks::compare_graphs() {
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

SOMA_INLINE Evaluation ManyRanks::evaluate(Context& context, nn::Task& task,
                                           data::BatchSource& source, PrecisionState& precision) {
  precision.set_maximum({});
  Evaluation evaluation = train::evaluate(context, task, source, &precision, communicator_);
  precision.set_maximum(maximum());
  return evaluation;
}

SOMA_INLINE bool ManyRanks::saves_parts() const { return shards_states_ && count() > 1; }

SOMA_INLINE bool ManyRanks::writes_shared_states() const { return !saves_parts() || first(); }

SOMA_INLINE void ManyRanks::check_store(CheckpointStore* store) {
  try_parts(communicator_, store, [this](bool mine) { return any(mine); });
}

SOMA_INLINE void ManyRanks::save_parts(CheckpointStore* store, std::optional<std::uint64_t> step,
                                       Checkpoint& checkpoint) {
  if (!saves_parts() || !step) return;
  std::vector<PartToSave> parts;
  take_part(checkpoint, CheckpointState::optimizer,
            {index_of_part(communicator_.rank(), count()), static_cast<std::size_t>(count())}, true,
            parts);
  train::save_parts(communicator_, store, step, parts, [this](bool mine) { return any(mine); });
}

SOMA_INLINE bool ManyRanks::load(Context& context, CheckpointStore* store, Which which,
                                 Checkpoint& checkpoint) {
  const bool found = first() && Ranks::load(context, store, which, checkpoint);
  if (!from_first(found)) return false;
  checkpoint = broadcast_checkpoint(communicator_, context_, checkpoint);
  return true;
}

SOMA_INLINE GraphLog* ManyRanks::graph_log() const {
  Device* const device = context_.device();
  return device == nullptr ? nullptr : device->graph_log();
}

SOMA_INLINE RowPartition ManyRanks::rows_of(const Parameter& parameter) {
  return RowPartition(parameter.var.shape(), parameter.first_row, parameter.last_row);
}

SOMA_INLINE void ManyRanks::SumsOfRanks::add(std::span<float> numbers) {
  all_reduce(ranks_.communicator_, ranks_.context_.heap(), numbers);
}

SOMA_INLINE ManyRanks::RowGather::RowGather(Heap& heap, Communicator& communicator, int tag,
                                            const Parameter& parameter)
    : Counted(heap),
      values_(parameter.value()),
      rows_(rows_of(parameter)),
      gather_(communicator, tag) {
  if (values_.bytes() != 0)
    gather_.start({values_.mutable_raw(), values_.bytes()},
                  rows_.row_elements() * size_of(values_.dtype()), rows_);
}

SOMA_INLINE void ManyRanks::RowGather::finish() { gather_.finish(); }

SOMA_INLINE Owned<Ranks> make_ranks(Context& context, const TrainerOptions& options) {
  if (options.communicator == nullptr) return Owned<Ranks>::make<Ranks>();
  return Owned<Ranks>::make<ManyRanks>(
      context, *options.communicator,
      GradientReducerOptions{.bucket_bytes = options.reduce_bucket_bytes,
                             .overlap = options.overlap,
                             .keep_own_rows = options.shard_optimizer,
                             .format = options.precision.reduction,
                             .seed = options.seed});
}

}  // namespace SOMA_NAMESPACE::train
