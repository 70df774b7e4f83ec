// train --model-kind fast.

#include "bert_classifier/commands.hpp"
#include "bert_classifier/fast/fast.hpp"
#include "bert_classifier/report/report.hpp"
#include "bert_classifier/results.hpp"
#include "bert_classifier/train/outputs.hpp"
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
#include <soma/models/fast_classifier.hpp>
#include <soma/sparse.hpp>
#include <soma/train/trainer.hpp>

#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

// Options of the other kind would have no effect.
void check_options(const TrainOptions& options) {
  const TrainOptions usual;
  for (const auto& [name, given] :
       {std::pair("--pretrained", !options.pretrained.empty()),
        {"--preset", options.preset != usual.preset},
        {"--vocab-size", options.vocab_size != 0},
        {"--max-length", options.max_length != usual.max_length},
        {"--dropout", options.dropout >= 0},
        {"--recompute", options.recompute},
        {"--pooling", !options.pooling.empty()},
        {"--freeze-layers", options.freeze_layers != 0},
        {"--stream", options.stream != 0},
        {"--optimizer", options.optimizer.name != usual.optimizer.name},
        {"--weight-decay", options.weight_decay.has_value()},
        {"--decay-all", options.decay_all},
        {"--precision", options.precision != usual.precision && options.precision != "fp32"},
        {"--regression", options.data.regression},
        {"--pair-column", !options.data.pair_column.empty()},
        {"--partitions", options.ranks.partitions != "1" || options.ranks.microbatches != 1}})
    if (given) throw UsageError(std::string(name) + " does nothing with --model-kind fast");
}

// The options that only the linear model has.
void check_trainer_options(const TrainOptions& options) {
  for (const auto& [name, given] :
       {std::pair("--precision", !options.precision.empty()),
        {"--multi-label", options.data.multi_label},
        {"--label-columns", !options.data.label_columns.empty()},
        {"--class-weights", !options.class_weights.empty()},
        {"--memory-limit", options.ranks.memory_limit != 0},
        {first_fast_option(options), first_fast_option(options) != nullptr}})
    if (given)
      throw UsageError(std::string(name) +
                       " is for a linear model, and another option, or several ranks, ask for a "
                       "trainer");
}

soma::models::TextSetSize size_of(const TrainingRows& rows) {
  soma::models::TextSetSize size{.rows = rows.train.size(), .classes = rows.labels.size()};
  for (const soma::text::LabelledRow& row : rows.train) {
    size.bytes += row.text.size();
    size.unspaced_bytes += soma::models::unspaced_bytes(row.text);
  }
  return size;
}

void print_choice(const soma::models::FastOptions& chosen, std::uint64_t epochs) {
  const bool characters = chosen.features.tokens == soma::text::TokenKind::characters;
  std::cerr << "fast: " << chosen.labels.size() << " classes, a table of 2^" << chosen.features.bits
            << " x " << chosen.width << ", " << (characters ? "characters" : "words")
            << " and runs of up to " << chosen.features.ngrams;
  if (chosen.features.parts != 0)
    std::cerr << ", parts of words of " << chosen.features.parts << " characters";
  std::cerr << "; " << epochs << " passes\n";
}

}  // namespace

int train_fast(const TrainOptions& given, const TrainOptions& options, Launch& launch,
               const std::vector<std::string>& typed) {
  check_options(options);
  check_no_optimizer_option(options.optimizer, "--model-kind fast");
  if (options.tunes()) return tune_fast(options, launch, typed);
  if (fits_linear(options, launch.size())) return train_linear(options, launch);
  check_trainer_options(options);
  const bool first = launch.rank() == 0;
  soma::train::TrainerOptions settings = common_trainer_options(options, launch);
  try_outputs(options, first);
  Compute compute(options.compute, launch.threads());
  soma::Context& context = compute.context();
  soma::add_sparse(context);

  TrainingRows rows = training_rows(options, launch.size());
  check_held_out(options, rows);
  const soma::models::TextSetSize size = size_of(rows);
  settings.epochs = options.epochs != 0 ? options.epochs : soma::models::fast_epochs_for(size);
  soma::models::FastOptions chosen =
      soma::models::fast_options_for(size, rows.labels, options.seed);
  chosen.input = rows.input;
  soma::models::FastClassifier model(context, chosen);
  if (!options.quiet) print_choice(model.options(), settings.epochs);

  soma::data::BatchOptions batching = batch_options(options);
  const auto source = model.batches(rows.train, batching);
  batching.shuffle = false;
  const auto held_out = rows.held_out.empty() ? nullptr : model.batches(rows.held_out, batching);
  const auto test = rows.test.empty() || !first ? nullptr : model.batches(rows.test, batching);
  std::vector<soma::text::LabelledRow> reported;
  if (!options.report.empty()) reported = std::move(rows.held_out);
  rows = {};
  soma::data::Prefetch prefetched(*source);

  std::unique_ptr<soma::CheckpointStore> checkpoints;
  if (!options.checkpoint.empty() && first) checkpoints = open_checkpoints(options);
  settings.checkpoints = checkpoints.get();
  soma::optim::RowAdagrad optimizer(context, model.parameters());
  settings.optimizer = &optimizer;
  soma::train::Trainer trainer(context, model, settings);

  Observers observers(options, launch, compute,
                      {.kind = "fast", .title = curves_title(options), .page = options.report});
  observers.watch(trainer);

  const soma::train::Report report = trainer.fit(prefetched, held_out.get(), &stop_requested);

  const Kept kept = what_to_keep(given, report);
  if (kept == Kept::model && !options.output.empty()) model.save(options.output);
  if (report.evaluated) write_confusion("train", options.confusion, model.labels(), report.metrics);
  const std::string hash = weights_hash(model.parameters());
  std::optional<soma::train::Evaluation> tested;
  if (test != nullptr && !report.interrupted)
    tested = measure_test(context, model, *test, trainer.precision());
  const std::string picture = observers.end(report, tested, hash);
  if (!options.report.empty())
    write_report(options,
                 {.run = report,
                  .tested = tested,
                  .picture = picture,
                  .labels = model.labels(),
                  .held_out = reported,
                  .kind = soma::data::LabelKind::one,
                  .ask = [&](std::span<const std::string_view> texts,
                             std::span<const std::string_view>) { return model.predict(texts); }});
  std::cout << report;
  if (tested) print_test(*tested);
  std::cout << "  weights hash      " << hash << '\n';
  compute.report(std::cout);
  return say_ending(given, launch, report, kept, 0);
}
