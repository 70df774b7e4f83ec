// train --model-kind fast without a trainer: rows in memory, a linear model by rules.

#include "bert_classifier/commands.hpp"
#include "bert_classifier/fast/measured.hpp"
#include "bert_classifier/results.hpp"
#include "bert_classifier/train/class_weights.hpp"
#include "bert_classifier/train/outputs.hpp"
#include "bert_classifier/train/rows.hpp"
#include "training/compute.hpp"
#include "training/launch/launch.hpp"
#include "training/weights_hash.hpp"

#include <soma/io/state_hash.hpp>
#include <soma/models/fast_classifier.hpp>
#include <soma/sparse.hpp>

#include <iostream>
#include <string_view>
#include <vector>

soma::models::FastFitOptions fit_options(const TrainOptions& options, const TrainingRows& rows) {
  soma::models::FastFitOptions settings{.c = options.fast.c,
                                        .strength = options.fast.strength,
                                        .parts = options.fast.parts,
                                        .bag_width = options.fast.bag_width,
                                        .seed = options.seed,
                                        .memory_limit = options.ranks.memory_limit,
                                        .class_weights = class_weights(options, rows)};
  settings.passes = options.epochs;
  if (options.fast.ngrams > 0) settings.ngrams = static_cast<std::uint64_t>(options.fast.ngrams);
  return settings;
}

namespace {

soma::models::FastClassifier fitted(soma::Context& context, const TrainingRows& rows,
                                    const TrainOptions& options) {
  try {
    return soma::models::FastClassifier::fit(context, rows.train, rows.labels,
                                             fit_options(options, rows), label_kind(options.data),
                                             &stop_requested);
  } catch (const soma::Error& error) {
    if (error.id() != soma::error_id::stopped) throw;
    throw Interrupted("train: ended by a signal before there was a model");
  }
}

void print_measured(soma::Context& context, const soma::models::FastClassifier& model,
                    const std::vector<soma::text::LabelledRow>& rows, std::string_view name,
                    const std::string& confusion) {
  const FastMeasured result(context, model, rows);
  write_confusion("train", confusion, model.labels(), result.metrics);
  std::cout << name << ": ";
  result.print(model.labels());
}

}  // namespace

bool fits_linear(const TrainOptions& options, int ranks) {
  const TrainOptions usual;
  return ranks == 1 && options.learning_rate < 0 && options.batch_size == usual.batch_size &&
         options.batch_tokens == 0 && options.max_steps == 0 && options.accumulate == 1 &&
         options.shards == usual.shards && options.schedule == usual.schedule &&
         options.warmup_steps < 0 && options.clip == usual.clip && !options.no_shuffle &&
         options.evaluate_every == 0 && options.patience == 0 && !options.keep_best &&
         options.checkpoint.empty() && !options.resume && options.tensorboard.empty() &&
         options.log_json.empty() && options.profile.empty() && !options.publish &&
         options.plot.empty() && options.report.empty();
}

int train_linear(const TrainOptions& options, Launch& launch) {
  try_outputs(options, true);
  Compute compute(options.compute, launch.threads());
  soma::Context& context = compute.context();
  soma::add_sparse(context);
  const TrainingRows rows = training_rows(options, launch.size());
  check_held_out(options, rows);
  soma::models::FastClassifier model = fitted(context, rows, options);
  model.set_input(rows.input);
  if (!options.quiet) std::cerr << "fast: " << to_string(model.linear()->fitted()) << '\n';
  if (!options.output.empty())
    model.save(options.output, {.fp32 = options.precision == "fp32", .keep = options.fast.keep});
  if (!rows.held_out.empty())
    print_measured(context, model, rows.held_out, "held out", options.confusion);
  if (!rows.test.empty()) print_measured(context, model, rows.test, "test", {});
  soma::Record record("config.json");
  soma::StateDict state;
  model.linear()->save(record, state, {.fp32 = true});
  soma::StateSource weights(state);
  std::cout << "  weights hash      " << weights_hash(weights) << '\n';
  compute.report(std::cout);
  return 0;
}
