// plan: the ways to lay a training out on ranks, before it runs.

#include "training/plan.hpp"
#include "language_model/commands.hpp"
#include "language_model/rows.hpp"
#include "training/compute.hpp"
#include "training/launch/launch.hpp"
#include "training/trainer_options.hpp"

#include <soma/nn/later.hpp>
#include <soma/pipeline.hpp>
#include <soma/soma.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace {

soma::train::PlanTable table_of(const TrainOptions& options, const TrainingRows& rows,
                                Launch& launch, std::size_t ranks, int threads,
                                std::vector<soma::train::PlanRow> others) {
  ComputeOptions computing = options.compute;
  computing.threads = threads;
  Compute compute(computing);
  soma::Context& context = compute.context();
  soma::nn::Later later;
  soma::models::LanguageModel model = training_model(context, options, &later);
  soma::data::BatchOptions batching = batch_options(options);
  const auto source = model.batches(rows.train, batching, &stop_requested);
  batching.shuffle = false;
  const auto held_out =
      rows.held_out.empty() ? nullptr : model.batches(rows.held_out, batching, &stop_requested);
  soma::train::TrainerOptions settings = common_trainer_options(options, launch);
  settings.epochs = options.epochs == 0 ? 1 : options.epochs;
  settings.pipeline = {.later = &later};
  return plan_table(context, model, *source, held_out.get(), settings, options, ranks,
                    std::move(others));
}

}  // namespace

int plan(const PlanCommand& command, Launch& launch) {
  const TrainingRows rows = training_rows(command.train);
  print_plan(command.plan, command.train,
             [&](std::size_t ranks, int threads, std::vector<soma::train::PlanRow> others) {
               return table_of(command.train, rows, launch, ranks, threads, std::move(others));
             });
  return 0;
}
