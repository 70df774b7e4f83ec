// train: reads rows and a model, writes a trained model.

#include "bert_classifier/commands.hpp"
#include "bert_classifier/fast/fast.hpp"
#include "bert_classifier/report/report.hpp"
#include "bert_classifier/results.hpp"
#include "bert_classifier/train/outputs.hpp"
#include "bert_classifier/train/parts.hpp"
#include "bert_classifier/train/rows.hpp"
#include "training/arguments.hpp"
#include "training/compute.hpp"
#include "training/ending.hpp"
#include "training/launch/launch.hpp"
#include "training/observers.hpp"
#include "training/optimizer.hpp"
#include "training/trainer_options.hpp"
#include "training/weights_hash.hpp"

#include <soma/data/prefetch.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/io/precision_json.hpp>
#include <soma/models/text_classifier.hpp>
#include <soma/pipeline.hpp>
#include <soma/soma.hpp>
#include <soma/train/stoppable_source.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using soma::models::TextClassifier;
using Texts = std::span<const std::string_view>;

// 0 if unknown before the end, for example for a stream in batches by tokens.
std::uint64_t steps_of(const soma::data::BatchSource& source, const TrainingRows& rows,
                       const TrainOptions& options, const soma::train::TrainerOptions& settings) {
  std::uint64_t batches = source.batches(0);
  if (rows.stream && options.batch_tokens == 0)
    batches = (rows.stream->count + options.batch_size - 1) / options.batch_size;
  return run_steps(batches, settings);
}

// The options of ranks other than 0.
TrainOptions without_outputs(TrainOptions options) {
  options.silence();
  options.confusion.clear();
  options.report.clear();
  return options;
}

}  // namespace

int train(const TrainOptions& given, Launch& launch, const std::vector<std::string>& command) {
  if (!given.confusion.empty() && label_kind(given.data) != soma::data::LabelKind::one)
    throw UsageError("--confusion needs texts with one class each");
  launch.join(given.ranks, given.shards, command);
  const TrainOptions options = launch.rank() == 0 ? given : without_outputs(given);
  if (options.kind == "fast") return train_fast(given, options, launch, command);
  if (options.tunes()) throw UsageError("--tune needs --model-kind fast");
  if (const char* name = first_fast_option(options))
    throw UsageError(std::string(name) + " needs --model-kind fast");
  soma::train::TrainerOptions settings = trainer_options(options, launch);
  bool pipeline = options.ranks.has_pipeline();
  if (pipeline && !options.ranks.automatic())
    check_on_all(launch, [&] {
      soma::train::check_pipeline(settings.pipeline, static_cast<std::size_t>(launch.size()),
                                  options.shards);
    });
  try_outputs(options, launch.rank() == 0);  // before anything is read
  if (launch.rank() == 0 && options.output.empty())
    std::cout << "There is no --output: the trained model will not be kept"
              << (options.checkpoint.empty() ? "" : ", but for its checkpoints") << ".\n"
              << std::flush;
  Compute compute(options.compute, launch.threads());
  soma::Context& context = compute.context();
  const TrainingRows rows = training_rows(options, launch.size());
  check_held_out(options, rows);
  soma::nn::Later later;  // a rank makes or reads only the weights of its stage
  if (pipeline) settings.pipeline.later = &later;
  const std::unique_ptr<TextClassifier> model =
      make_model(context, options, rows, settings.pipeline.later);

  soma::data::BatchOptions batching = batch_options(options);
  const auto source = make_source(context, *model, rows, batching);
  batching.shuffle = false;
  const auto held_out =
      rows.held_out.empty() ? nullptr : model->batches(rows.held_out, batching, &stop_requested);
  const std::unique_ptr<soma::optim::Optimizer> optimizer =
      make_optimizer(context, model->parameters(), options, settings.precision);
  settings.optimizer = optimizer.get();
  const std::uint64_t steps = steps_of(*source, rows, options, settings);
  if (rows.stream) settings.max_steps = steps;
  if (options.ranks.automatic()) {
    // With checkpoints the best weights are in files.
    settings.keep_best = options.keep_best && options.checkpoint.empty();
    const std::string layout =
        soma::train::choose_plan(context, *model, *source, settings, held_out.get());
    settings.keep_best = options.keep_best;
    if (!options.quiet && launch.rank() == 0) std::cerr << "planned: " << layout << '\n';
    pipeline = settings.pipeline.partitions != 1 || settings.pipeline.microbatches != 1;
    if (!pipeline) {
      settings.pipeline = {};
      later.make(context, model->parameters());
    }
  }
  if (options.warmup_steps < 0 && options.pretrained.empty()) settings.schedule.warmup = steps / 20;
  soma::data::Prefetch prefetched(*source);

  const std::unique_ptr<soma::CheckpointStore> checkpoints =
      open_checkpoints(options, launch, settings);
  settings.checkpoints = checkpoints.get();
  std::optional<soma::train::TrainerBase> whole;
  std::optional<soma::train::PipelineTrainer> stages;
  if (pipeline)
    stages.emplace(context, *model, settings);
  else
    whole.emplace(context, *model, settings);
  soma::train::TrainerBase& trainer = pipeline ? *stages : *whole;

  Observers observers(
      options, launch, compute,
      {.kind = "bert",
       .title = curves_title(options),
       .page = options.report,
       .narrow_products = settings.precision.gemm_weights.format.mantissa_bits <= 7});
  observers.watch(trainer);

  const soma::train::Report report = trainer.fit(prefetched, held_out.get(), &stop_requested);

  const Kept kept = what_to_keep(given, report);
  std::string hash;
  // Stages send their weights to rank 0 one tensor at a time, because it has no room for all of
  // them.
  const auto keep = [&](soma::TensorSource& weights) {
    if (kept == Kept::model && !options.output.empty()) model->save(options.output, &weights);
    hash = weights_hash(weights);
  };
  std::optional<soma::train::Evaluation> tested;
  if (pipeline) {
    stages->on_first(keep);
    if (!rows.test.empty() && !report.interrupted)
      tested = stages->evaluate(*model->batches(rows.test, batching), &stop_requested);
    if (launch.rank() != 0) return 0;
  } else {
    const soma::StateDict weights = soma::nn::state_dict(model->parameters());
    soma::StateSource all(weights);
    keep(all);
    if (!rows.test.empty() && !report.interrupted && launch.rank() == 0)
      tested =
          measure_test(context, *model, *model->batches(rows.test, batching), trainer.precision());
  }
  if (report.evaluated)
    write_confusion("train", options.confusion, model->labels(), report.metrics);
  const std::string picture = observers.end(report, tested, hash);
  if (!options.report.empty())
    write_report(options, {.run = report,
                           .tested = tested,
                           .picture = picture,
                           .labels = model->labels(),
                           .held_out = rows.held_out,
                           .kind = model->kind(),
                           .ask = [&](Texts texts, Texts pairs) {
                             return model->predict(texts, soma::DType::fp32, pairs);
                           }});
  std::cout << report;
  if (tested) print_test(*tested);
  std::cout << "  weights hash      " << hash << '\n';
  compute.report(std::cout);
  return say_ending(given, launch, report, kept, steps);
}
