// plan: the ways to lay a training out on ranks, before it runs.

#include "training/plan.hpp"
#include "bert_classifier/commands.hpp"
#include "bert_classifier/train/parts.hpp"
#include "training/arguments.hpp"
#include "training/compute.hpp"
#include "training/launch/launch.hpp"

#include <soma/pipeline.hpp>
#include <soma/soma.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace {

// Plans for so many ranks, each with so many threads.
soma::train::PlanTable table_of(const PlanCommand& command, const TrainingRows& rows,
                                Launch& launch, std::size_t ranks, int threads,
                                std::vector<soma::train::PlanRow> others) {
  const TrainOptions& options = command.train;
  ComputeOptions computing = options.compute;
  computing.threads = threads;
  Compute compute(computing);
  soma::Context& context = compute.context();
  soma::nn::Later later;
  const auto model = make_model(context, options, rows, &later);
  soma::data::BatchOptions batching = batch_options(options);
  const auto source = make_source(context, *model, rows, batching);
  batching.shuffle = false;
  const auto held_out =
      rows.held_out.empty() ? nullptr : model->batches(rows.held_out, batching, &stop_requested);
  soma::train::TrainerOptions settings = trainer_options(options, launch);
  settings.pipeline = {.later = &later};
  return plan_table(context, *model, *source, held_out.get(), settings, options, ranks,
                    std::move(others));
}

}  // namespace

int plan(const PlanCommand& command, Launch& launch) {
  if (command.train.kind != "bert") throw UsageError("plan needs --kind bert");
  const TrainingRows rows = training_rows(command.train, 1);
  print_plan(command.plan, command.train,
             [&](std::size_t ranks, int threads, std::vector<soma::train::PlanRow> others) {
               return table_of(command, rows, launch, ranks, threads, std::move(others));
             });
  return 0;
}
