// train: reads documents and a model's folder, writes a trained model's folder.

#include "language_model/commands.hpp"
#include "language_model/rows.hpp"
#include "training/arguments.hpp"
#include "training/compute.hpp"
#include "training/ending.hpp"
#include "training/launch/launch.hpp"
#include "training/observers.hpp"
#include "training/optimizer.hpp"
#include "training/outputs.hpp"
#include "training/trainer_options.hpp"
#include "training/weights_hash.hpp"

#include <soma/data/prefetch.hpp>
#include <soma/models/language_model.hpp>
#include <soma/nn/later.hpp>
#include <soma/pipeline.hpp>
#include <soma/soma.hpp>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace {

using soma::models::LanguageModel;

soma::models::SaveLanguageModelOptions save_options(const TrainOptions& options,
                                                    soma::TensorSource& weights) {
  soma::models::SaveLanguageModelOptions result{.shard_bytes = options.shard_bytes,
                                                .source = &weights};
  result.weights = weights_type(options.save_dtype);
  return result;
}

// True if --output gets an adapter and no model.
bool trains_adapter(const TrainOptions& options) {
  return options.lora.rank != 0 || !options.adapter.empty();
}

void check_output(const TrainOptions& options) {
  if (options.output.empty()) return;
  if (!trains_adapter(options)) return soma::models::check_decoder_folder("train", options.output);
  if (!options.save_dtype.empty() || options.shard_bytes != 0)
    throw UsageError(
        "--save-dtype and --shard-bytes are for weights: an adapter is one file of "
        "fp32 (merge has these options)");
  soma::models::check_adapter_folder("train", options.output);
}

// A batch needs a sequence for each rank, or some have nothing to do.
void say_idle_ranks(const soma::data::DocumentSource& source, Launch& launch) {
  if (source.largest_sequences() >= static_cast<std::size_t>(launch.size())) return;
  std::cerr << "batches have at most " << source.largest_sequences() << " sequences for "
            << launch.size() << " ranks: some ranks have nothing to do\n";
}

}  // namespace

int train(const TrainOptions& given, Launch& launch, const std::vector<std::string>& command) {
  launch.join(given.ranks, given.shards, command);
  TrainOptions options = given;
  if (launch.rank() != 0) options.silence();
  soma::train::TrainerOptions settings = common_trainer_options(options, launch);
  settings.epochs = options.epochs == 0 ? 1 : options.epochs;
  bool pipeline = options.ranks.has_pipeline();
  if (pipeline && !options.ranks.automatic())
    check_on_all(launch, [&] {
      soma::train::check_pipeline(settings.pipeline, static_cast<std::size_t>(launch.size()),
                                  options.shards);
    });
  check_output(options);
  std::vector<Place> inputs;
  for (const std::string& file : options.data) inputs.push_back({"--data", file});
  for (const std::string& file : options.dev) inputs.push_back({"--dev", file});
  try_run_outputs(options, {}, inputs, launch.rank() == 0);  // before anything is read
  if (launch.rank() == 0 && options.output.empty())
    std::cout << "There is no --output: the trained model will not be kept"
              << (options.checkpoint.empty() ? "" : ", but for its checkpoints") << ".\n"
              << std::flush;

  Compute compute(options.compute, launch.threads());
  soma::Context& context = compute.context();
  const TrainingRows rows = training_rows(options);
  if (rows.held_out.empty()) check_validation(options);
  soma::nn::Later later;  // a rank makes or reads only the weights of its stage
  if (pipeline) settings.pipeline.later = &later;
  LanguageModel model = training_model(context, options, settings.pipeline.later);
  soma::data::BatchOptions batching = batch_options(options);
  const auto source = model.batches(rows.train, batching, &stop_requested);
  batching.shuffle = false;
  const auto held_out =
      rows.held_out.empty() ? nullptr : model.batches(rows.held_out, batching, &stop_requested);
  if (!options.quiet) {
    std::cerr << rows.train.size() << " documents, " << source->windows().size()
              << " sequences of at most " << model.length() << " rows, " << source->targets()
              << " tokens to learn\n";
    say_idle_ranks(*source, launch);
  }
  const std::unique_ptr<soma::optim::Optimizer> optimizer =
      make_optimizer(context, model.parameters(), options, settings.precision);
  settings.optimizer = optimizer.get();
  const std::uint64_t steps = run_steps(source->batches(0), settings);
  if (options.ranks.automatic()) {
    // With checkpoints the best weights are in files.
    settings.keep_best = options.keep_best && options.checkpoint.empty();
    const std::string layout =
        soma::train::choose_plan(context, model, *source, settings, held_out.get());
    settings.keep_best = options.keep_best;
    if (!options.quiet) std::cerr << "planned: " << layout << '\n';
    pipeline = settings.pipeline.partitions != 1 || settings.pipeline.microbatches != 1;
    if (!pipeline) {
      settings.pipeline = {};
      later.make(context, model.parameters());
    }
  }
  soma::data::Prefetch prefetched(*source);
  const std::unique_ptr<soma::CheckpointStore> checkpoints =
      open_checkpoints(options, launch, settings);
  settings.checkpoints = checkpoints.get();
  std::optional<soma::train::TrainerBase> whole;
  std::optional<soma::train::PipelineTrainer> stages;
  if (pipeline)
    stages.emplace(context, model, settings);
  else
    whole.emplace(context, model, settings);
  soma::train::TrainerBase& trainer = pipeline ? *stages : *whole;
  Observers observers(
      options, launch, compute,
      {.kind = "decoder",
       .title = options.data.front(),
       .narrow_products = settings.precision.gemm_weights.format.mantissa_bits <= 7});
  observers.watch(trainer);

  const soma::train::Report report = trainer.fit(prefetched, held_out.get(), &stop_requested);

  const Kept kept = what_to_keep(given, report);
  std::string hash;
  const auto keep = [&](soma::TensorSource& weights) {
    if (kept == Kept::model && !options.output.empty()) {
      if (model.adapted())
        model.save_adapter(options.output, &weights);
      else
        model.save(options.output, save_options(options, weights));
    }
    hash = weights_hash(weights);
  };
  if (pipeline) {
    stages->on_first(keep);
    if (launch.rank() != 0) return 0;
  } else {
    const soma::StateDict weights = soma::nn::state_dict(model.parameters());
    soma::StateSource all(weights);
    keep(all);
  }
  observers.end(report, std::nullopt, hash);
  std::cout << report << "  weights hash      " << hash << '\n';
  compute.report(std::cout);
  return say_ending(given, launch, report, kept, steps);
}
