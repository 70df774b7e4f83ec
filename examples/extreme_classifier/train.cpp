// extreme_classifier train.

#include "extreme_classifier/options.hpp"
#include "extreme_classifier/report.hpp"
#include "extreme_classifier/synthetic.hpp"
#include "extreme_classifier/texts.hpp"

#include <soma/base/fixed.hpp>
#include <soma/data/prefetch.hpp>
#include <soma/io/checkpoint_folder.hpp>
#include <soma/models/extreme_files.hpp>
#include <soma/sparse.hpp>
#include <soma/system/clock.hpp>
#include <soma/system/process.hpp>
#include <soma/train/trainer.hpp>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace {

void print_choice(const soma::models::ExtremeOptions& chosen) {
  const soma::nn::SamplerOptions& sampler = chosen.sampler;
  std::cout << "classes " << chosen.classes << ", features " << chosen.features << ", width "
            << chosen.width << ", sampler "
            << soma::nn::sampler_names[static_cast<std::size_t>(sampler.kind)];
  if (sampler.kind != soma::nn::Sampler::full) std::cout << ", set " << sampler.set;
  if (soma::nn::uses_index(sampler.kind))
    std::cout << ", " << sampler.index.tables << " tables of 8^" << sampler.index.codes
              << " buckets";
  std::cout << std::endl;
}

// Two runs must not mix: without --resume, a folder with checkpoints is refused.
std::optional<soma::CheckpointFolder>& open_checkpoints(
    const TrainOptions& options, std::optional<soma::CheckpointFolder>& folder) {
  if (options.checkpoint.empty()) return folder;
  folder.emplace(options.checkpoint);
  if (const auto newest = folder->newest(); !options.resume && newest)
    soma::fail(soma::error_id::checkpoint_step, "train", "--checkpoint",
               soma::quoted(options.checkpoint) + ", which has a checkpoint of step " +
                   std::to_string(*newest),
               "--resume to go on from it, or another folder");
  return folder;
}

soma::models::ExtremeKind kind_of(const TrainOptions& options) {
  using soma::models::extreme_kind_names;
  const auto* const found =
      std::find(std::begin(extreme_kind_names), std::end(extreme_kind_names), options.kind);
  return static_cast<soma::models::ExtremeKind>(found - std::begin(extreme_kind_names));
}

void print_fit(const soma::models::ExtremeClassifier& model) {
  using soma::fixed;
  const soma::models::ExtremeLinear& linear = *model.linear_model();
  const soma::models::ExtremeFit& fit = linear.fitted();
  std::cout << "classes " << linear.classes() << ", features " << linear.features() << ", kind "
            << soma::models::extreme_kind_names[static_cast<std::size_t>(fit.kind)] << ", C "
            << soma::to_text(fit.c) << ", passes " << fit.passes;
  if (fit.held_out_points != 0)
    std::cout << " (chosen by " << fit.held_out_points << " points held out, precision "
              << fixed(fit.held_out_precision, 4) << ')';
  if (const auto& tree = linear.tree())
    std::cout << ", " << tree->nodes().size() << " nodes, " << tree->weights() << " weights";
  std::cout << ", size " << fixed(static_cast<double>(linear.bytes()) / (1 << 20), 1) << " MiB\n";
  if (fit.classes_without_points != 0)
    std::cout << fit.classes_without_points << " classes have no point, and are never predicted\n";
  std::cout.flush();
}

// The linear kinds, which a fit makes. `features`: of texts, or nullptr.
int fit(soma::Context& context, const TrainOptions& options, const soma::data::SparsePoints& points,
        const soma::data::SparsePoints& test, std::span<const std::string> names,
        const soma::text::CountedFeatures* features) {
  const double start = cpu_seconds();
  const std::int64_t clock = soma::monotonic_nanoseconds();
  const soma::models::ExtremeFitOptions settings{
      .kind = kind_of(options),
      .c = options.c == 0 && features != nullptr ? 1 : options.c,
      .passes = static_cast<std::size_t>(options.epochs),
      .raw_values = options.raw_values || features != nullptr,
      .seed = options.seed,
      .beam = options.beam,
      .memory = std::uint64_t{options.memory_mib} << 20,
      .stop = &stop_requested};
  std::cout << points.count() << " points, " << points.ids.size() << " values: the fit takes up to "
            << (soma::models::extreme_fit_bytes(points, settings) >> 20) << " MiB" << std::endl;
  const auto model = soma::models::ExtremeClassifier::fit(context, points, settings);
  const double seconds = cpu_seconds() - start;
  print_fit(*model);
  std::cout << points.count() << " points in " << soma::fixed(seconds, 2) << " CPU seconds, "
            << soma::fixed(static_cast<double>(soma::monotonic_nanoseconds() - clock) * 1e-9, 2)
            << " by the clock; memory " << (soma::peak_resident_bytes() >> 20) << " MiB"
            << std::endl;
  if (!options.output.empty() && features != nullptr)
    soma::models::save_extreme_text(*model, *features, options.output, names);
  else if (!options.output.empty())
    soma::models::save_extreme_classifier(*model, options.output, names);
  if (test.count() != 0) print_measured(*model, context, test, options.propensity);
  return 0;
}

// Texts become points by a model of their own.
int fit_texts(soma::Context& context, const TrainOptions& options) {
  Texts texts = read_texts(options.data, options.texts, options.max_line_bytes);
  if (texts.labels.ids.empty())
    soma::fail(soma::error_id::data_labels, "train", "labels of " + soma::quoted(options.data),
               "no text has one", "a row with a label");
  const soma::models::TextPoints learnt = soma::models::learn_text_points(
      context, texts.views(), std::move(texts.labels), texts.names.size());
  if (options.tune >= 0 || options.tune_passes != 0)
    return tune(context, options, learnt.points, &learnt.features);
  soma::data::SparsePoints test;
  if (!options.test.empty()) {
    Texts others =
        read_known_texts(options.test, texts.names, options.texts, options.max_line_bytes);
    test = soma::models::text_points(learnt.features, others.views(), texts.names.size());
    test.labels = std::move(others.labels);
  }
  return fit(context, options, learnt.points, test, texts.names, &learnt.features);
}

void check_text_options(const TrainOptions& options) {
  const auto refuse = [](const char* name, const std::string& given, const std::string& wanted) {
    soma::fail(soma::error_id::train_options, "train", name, given, wanted);
  };
  if (kind_of(options) == soma::models::ExtremeKind::network)
    refuse("--kind", "network, for texts", "linear or tree: the network takes points");
  if (!options.label_names.empty())
    refuse("--label-names", "given for texts", "points: labels of texts have names");
}

}  // namespace

int train(const TrainOptions& options) {
  if (!options.output.empty()) soma::models::check_model_folder("train", options.output);
  std::optional<soma::CheckpointFolder> checkpoints;
  open_checkpoints(options, checkpoints);
  auto context = soma::make_context({.threads = options.threads});
  soma::add_sparse(context);
  const bool made_up = options.data.empty();
  if (options.texts.multi_label || is_text_file(options.data)) {
    check_text_options(options);
    return fit_texts(context, options);
  }
  const soma::data::SparsePoints points =
      made_up ? synthetic::points(options.points, options.features, options.classes, options.seed)
              : read_points(options.data, {.max_line_bytes = options.max_line_bytes});
  soma::models::LabelCounts counts = soma::models::label_counts_of(points);
  soma::data::SparsePoints test;
  if (made_up)
    test =
        synthetic::points(options.test_points, options.features, options.classes, options.seed + 1);
  else if (!options.test.empty())
    test = read_points(options.test, {.features = points.features,
                                      .classes = points.classes,
                                      .max_line_bytes = options.max_line_bytes});
  if (points.labels.ids.empty())
    soma::fail(soma::error_id::data_labels, "train", "labels of " + soma::quoted(options.data),
               "no point has one", "labels before the features of a line");
  const std::vector<std::string> names =
      options.label_names.empty()
          ? std::vector<std::string>()
          : soma::models::read_label_names(options.label_names, points.classes);
  if (options.tune >= 0 || options.tune_passes != 0) return tune(context, options, points, nullptr);

  if (kind_of(options) != soma::models::ExtremeKind::network)
    return fit(context, options, points, test, names, nullptr);

  soma::models::ExtremeClassifier model(context, model_options(options, points));
  model.use_label_counts(std::move(counts));
  print_choice(model.options());
  soma::optim::RowAdam optimizer(context, model.parameters());
  soma::data::PointSource source(context, points,
                                 {.batch_sequences = options.batch_size, .seed = options.seed});
  soma::data::Prefetch prefetched(source);
  soma::train::TrainerOptions settings{.epochs = options.epochs == 0 ? 1 : options.epochs,
                                       .max_steps = options.max_steps,
                                       .learning_rate = options.learning_rate,
                                       .seed = options.seed};
  settings.clip = 0;
  settings.schedule.decay = soma::optim::Decay::constant;
  settings.optimizer = &optimizer;
  settings.checkpoints = checkpoints ? &*checkpoints : nullptr;
  settings.checkpoint_every = options.checkpoint_every;
  settings.resume = options.resume;
  soma::train::Trainer trainer(context, model, settings);
  std::optional<RunReport> details;
  if (options.report) trainer.add(details.emplace(context, model));
  const double start = cpu_seconds();
  const soma::train::Report report = trainer.fit(prefetched, nullptr, &stop_requested);
  const double seconds = cpu_seconds() - start;
  std::cout << report.sequences << " points in " << soma::fixed(seconds, 2) << " CPU seconds, "
            << soma::fixed(report.train_seconds, 2)
            << " by the clock: " << soma::fixed(static_cast<double>(report.sequences) / seconds, 0)
            << " a CPU second; loss " << soma::fixed(report.loss, 4) << ", memory "
            << (soma::peak_resident_bytes() >> 20) << " MiB" << std::endl;
  if (details) details->print(std::cout);
  details.reset();  // also ends the profiler
  if (report.interrupted) {
    std::cerr << "train: interrupted at step " << report.steps
              << (checkpoints ? "; go on with --resume\n"
                              : "; nothing is kept without --checkpoint\n");
    return 1;
  }
  if (!options.output.empty()) soma::models::save_extreme_classifier(model, options.output, names);
  if (options.report) print_recall(std::cout, context, model, test.count() != 0 ? test : points);
  if (test.count() != 0)
    std::cout << text_of(measure(model, context, test, options.batch_size, options.propensity))
              << std::endl;
  return 0;
}
