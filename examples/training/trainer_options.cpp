#include "training/trainer_options.hpp"

#include "training/arguments.hpp"
#include "training/launch/launch.hpp"
#include "training/optimizer.hpp"

#include <soma/io/precision_json.hpp>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <string>

namespace {

// An option that the schedule does not read is a mistake.
void set_schedule(const RunOptions& options, soma::optim::Schedule& schedule) {
  using soma::optim::Decay;
  const auto& names = soma::optim::decay_names;
  schedule.decay =
      static_cast<Decay>(std::find(std::begin(names), std::end(names), options.schedule) - names);
  const auto read = [&](const char* name, const auto& given, auto& value,
                        std::initializer_list<Decay> readers) {
    if (!given) return;
    if (std::find(readers.begin(), readers.end(), schedule.decay) == readers.end())
      throw UsageError(std::string(name) + " does nothing with --schedule " + options.schedule);
    value = *given;
  };
  const ScheduleOptions& given = options.schedule_options;
  read("--schedule-factor", given.factor, schedule.factor,
       {Decay::step, Decay::exponential, Decay::plateau, Decay::milestones});
  read("--schedule-every", given.every, schedule.every,
       {Decay::step, Decay::exponential, Decay::warm_restarts});
  read("--schedule-growth", given.growth, schedule.growth, {Decay::warm_restarts});
  read("--start-ratio", given.start_ratio, schedule.start_ratio, {Decay::one_cycle});
  const bool steps = schedule.decay == Decay::milestones;
  if (steps != !given.milestones.empty())
    throw UsageError(steps ? "--schedule milestones needs --schedule-milestones"
                           : "--schedule-milestones does nothing with --schedule " +
                                 options.schedule);
  schedule.milestones = given.milestones;
  read("--schedule-patience", given.patience, schedule.patience, {Decay::plateau});
  read("--schedule-threshold", given.threshold, schedule.threshold, {Decay::plateau});
  read("--final-ratio", given.final_ratio, schedule.final_ratio,
       {Decay::linear, Decay::cosine, Decay::plateau, Decay::one_cycle, Decay::warm_restarts});
}

soma::train::PipelineOptions pipeline_options(const RankOptions& options) {
  using namespace soma::train;
  return {.partitions = options.automatic() ? 1 : std::stoul(options.partitions),
          .microbatches = options.microbatches,
          .schedule = options.pipeline == "simple" ? Pipeline::simple : Pipeline::interleaved,
          .optimize = options.optimize == "speed" ? Optimize::speed : Optimize::memory,
          .placement =
              options.placement == "spread" ? soma::Placement::spread : soma::Placement::cluster,
          .memory_limit = options.memory_limit,
          .network = options.network,
          .decision = options.partition_file,
          .cuts = options.cuts};
}

}  // namespace

soma::train::TrainerOptions common_trainer_options(const RunOptions& options, Launch& launch) {
  soma::train::TrainerOptions result;
  result.max_steps = options.max_steps;
  result.batch_size = options.batch_size;
  result.accumulate = options.accumulate;
  if (options.learning_rate >= 0) result.learning_rate = options.learning_rate;
  set_schedule(options, result.schedule);
  result.schedule.warmup =
      static_cast<std::uint64_t>((std::max)(options.warmup_steps, std::int64_t{0}));
  result.keep_warmup = options.warmup_steps < 0;
  check_optimizer(options.optimizer);
  if (const AverageWeights& average = options.average; average.decay)
    result.average = soma::train::AverageOptions{.decay = *average.decay,
                                                 .from = average.from.value_or(0),
                                                 .every = average.every.value_or(1)};
  result.clip = options.clip;
  result.step_early = options.step_early;
  result.seed = options.seed;
  result.precision = soma::find_precision(options.precision.empty() ? "fp32" : options.precision);
  if (const std::string& format = options.ranks.reduction; !format.empty())
    result.precision.reduction = {.format = soma::find_format(format),
                                  .rounding = soma::Rounding::stochastic};
  result.evaluate_every = options.evaluate_every;
  result.patience = options.patience;
  result.keep_best = options.keep_best;
  result.best_metric = options.metric;
  result.checkpoint_every = options.checkpoint_every;
  result.resume = options.resume;
  result.price_per_hour = options.price_per_hour;
  result.communicator = launch.communicator();
  result.reduce_bucket_bytes = options.ranks.bucket_bytes;
  result.overlap = !options.ranks.no_overlap;
  result.shard_optimizer = options.ranks.shard_optimizer;
  result.pipeline = pipeline_options(options.ranks);
  return result;
}

soma::data::BatchOptions batch_options(const RunOptions& options) {
  return {.batch_sequences = options.batch_tokens != 0 ? 0 : options.batch_size,
          .batch_tokens = options.batch_tokens,
          .shuffle = !options.no_shuffle,
          .seed = options.seed,
          .shards = options.shards};
}

std::uint64_t run_steps(std::uint64_t batches, const soma::train::TrainerOptions& settings) {
  const std::uint64_t all =
      (batches + settings.accumulate - 1) / settings.accumulate * settings.epochs;
  return settings.max_steps != 0 && (all == 0 || settings.max_steps < all) ? settings.max_steps
                                                                           : all;
}
