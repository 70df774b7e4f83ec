// extreme_classifier: learns which of very many classes points of few features have, from files as
// repositories of extreme classification write them, or from points that are made up.
//   0 done, 1 the run failed, 2 it was called wrongly. Errors are one line that ends with an id.

#include "extreme_classifier/synthetic.hpp"

#include <soma/base/fixed.hpp>
#include <soma/data/prefetch.hpp>
#include <soma/models/extreme_classifier.hpp>
#include <soma/runtime/clock.hpp>
#include <soma/runtime/usage.hpp>
#include <soma/sparse.hpp>
#include <soma/text/xmc_reader.hpp>
#include <soma/train/trainer.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

namespace {

struct Options {
  std::string train, test;
  std::size_t classes = 50000, features = 135909, points = 61440, test_points = 2000;
  std::string sampler;  // empty: by the number of classes
  std::size_t set = 0, width = 128, batch_size = 256, index_mib = 256;
  std::uint64_t epochs = 1, max_steps = 0, seed = 1, refresh_every = 50;
  double learning_rate = 1e-3;
  int threads = 0;
  bool tune = false;
};

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void add_options(CLI::App& app, Options& options) {
  CLI::Option* train = app.add_option("--train", options.train, "XMC or libsvm file, also .gz");
  app.add_option("--test", options.test, "the same, to measure by")->needs(train);
  app.add_option("--classes", options.classes, "of made-up points")->excludes(train);
  app.add_option("--features", options.features, "of made-up points")->excludes(train);
  app.add_option("--points", options.points, "made-up ones to train on")->excludes(train);
  app.add_option("--sampler", options.sampler,
                 "full, uniform or lsh_shared; default: by the number of classes")
      ->check(CLI::IsMember({"full", "uniform", "lsh_shared"}));
  app.add_option("--set", options.set, "classes that a batch is trained against; 0: 2048");
  app.add_option("--width", options.width, "of the hidden layer")->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "points")->capture_default_str();
  app.add_option("--epochs", options.epochs, "passes over the points")->capture_default_str();
  app.add_option("--max-steps", options.max_steps, "0: never before the epochs");
  app.add_option("--learning-rate", options.learning_rate, "of Adam")->capture_default_str();
  app.add_option("--refresh-every", options.refresh_every, "steps between refreshes of the index")
      ->capture_default_str();
  app.add_option("--index-memory", options.index_mib, "MiB that tables of hashes may take")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of first weights, order and sets")->capture_default_str();
  app.add_option("--threads", options.threads, "0: the cores this process may use");
  app.add_flag("--tune", options.tune,
               "try the samplers for two seconds, say which is fastest, and train nothing");
}

soma::models::ExtremeOptions model_options(const Options& options,
                                           const soma::data::SparsePoints& points,
                                           soma::nn::Sampler kind) {
  soma::models::ExtremeOptions chosen{.features = points.features,
                                      .classes = points.classes,
                                      .width = options.width,
                                      .seed = options.seed};
  chosen.sampler = soma::nn::sampler_options_for(points.classes, options.width,
                                                 options.index_mib << 20, kind, options.seed);
  if (options.set != 0) chosen.sampler.set = options.set;
  chosen.sampler.refresh_every = options.refresh_every;
  return chosen;
}

soma::nn::Sampler sampler_of(const Options& options, std::size_t classes) {
  for (const soma::nn::Sampler kind :
       {soma::nn::Sampler::full, soma::nn::Sampler::uniform, soma::nn::Sampler::lsh_shared})
    if (options.sampler == soma::nn::sampler_names[static_cast<std::size_t>(kind)]) return kind;
  return soma::nn::sampler_for(classes);
}

void print_choice(const soma::models::ExtremeOptions& chosen) {
  std::cout << "classes " << chosen.classes << ", features " << chosen.features << ", width "
            << chosen.width << ", sampler "
            << soma::nn::sampler_names[static_cast<std::size_t>(chosen.sampler.kind)];
  if (chosen.sampler.kind != soma::nn::Sampler::full) std::cout << ", set " << chosen.sampler.set;
  if (chosen.sampler.kind == soma::nn::Sampler::lsh_shared)
    std::cout << ", " << chosen.sampler.index.tables << " tables of 8^"
              << chosen.sampler.index.codes << " buckets";
  std::cout << std::endl;
}

// Points a CPU second, in steps of at least `seconds` together.
double rate_of(soma::Context& context, const Options& options,
               const soma::data::SparsePoints& points, soma::nn::Sampler kind, double seconds) {
  soma::models::ExtremeClassifier model(context, model_options(options, points, kind));
  soma::optim::RowAdam optimizer(context, model.parameters());
  soma::data::PointSource source(context, points,
                                 {.batch_sequences = options.batch_size, .seed = options.seed});
  soma::Tape tape(context);
  soma::data::Batch batch;
  double count = 0;
  const double start = cpu_seconds();
  for (std::uint32_t step = 0; cpu_seconds() - start < seconds && source.next(batch); ++step) {
    soma::clear_gradients(model.parameters());
    tape.reset(step);
    tape.backward(model.forward(tape, batch).loss);
    optimizer.step({.rate = options.learning_rate});
    count += static_cast<double>(batch.inputs.sequences.count());
  }
  return count / (cpu_seconds() - start);
}

// Shares of the likeliest k classes that are labels, k = 1, 3, 5.
void print_precision(const soma::models::ExtremeClassifier& model, soma::Context& context,
                     const soma::data::SparsePoints& points, std::size_t batch_size) {
  soma::data::PointSource source(context, points,
                                 {.batch_sequences = batch_size, .shuffle = false});
  double right[3] = {}, count = 0;
  const std::size_t ranks[3] = {1, 3, 5};
  for (soma::data::Batch batch; source.next(batch);) {
    const auto best = model.top(batch, 5);
    for (std::size_t i = 0; i < best.size(); ++i, ++count) {
      const auto labels = batch.label_lists.list(i);
      for (std::size_t k = 0; k < best[i].size(); ++k)
        if (std::binary_search(labels.begin(), labels.end(), best[i][k]))
          for (std::size_t r = 0; r < 3; ++r) right[r] += k < ranks[r] ? 1 : 0;
    }
  }
  for (std::size_t r = 0; r < 3; ++r)
    std::cout << (r == 0 ? "P@" : ", P@") << ranks[r] << " "
              << soma::detail::fixed(right[r] / count / static_cast<double>(ranks[r]), 4);
  std::cout << " of " << count << " points" << std::endl;
}

int run(const Options& options) {
  auto context = soma::make_context({.threads = options.threads});
  soma::add_sparse(context);
  const soma::data::SparsePoints points =
      options.train.empty()
          ? synthetic::points(options.points, options.features, options.classes, options.seed)
          : soma::text::read_xmc(options.train);
  soma::data::SparsePoints test;
  if (options.train.empty())
    test =
        synthetic::points(options.test_points, options.features, options.classes, options.seed + 1);
  else if (!options.test.empty())
    test = soma::text::read_xmc(options.test,
                                {.features = points.features, .classes = points.classes});
  if (options.tune) {
    std::string best;
    double most = 0;
    for (const auto kind : {soma::nn::Sampler::full, soma::nn::Sampler::uniform}) {
      const double rate = rate_of(context, options, points, kind, 1);
      const std::string name(soma::nn::sampler_names[static_cast<std::size_t>(kind)]);
      std::cout << name << ": " << soma::detail::fixed(rate, 0) << " points a CPU second\n";
      if (rate > most) best = name;
      most = (std::max)(most, rate);
    }
    std::cout << "recommended: --sampler " << best << '\n';
    return 0;
  }

  soma::models::ExtremeClassifier model(
      context, model_options(options, points, sampler_of(options, points.classes)));
  print_choice(model.options());
  soma::optim::RowAdam optimizer(context, model.parameters());
  soma::data::PointSource source(context, points,
                                 {.batch_sequences = options.batch_size, .seed = options.seed});
  soma::data::Prefetch prefetched(source);
  soma::train::TrainerOptions settings{.epochs = options.epochs,
                                       .max_steps = options.max_steps,
                                       .learning_rate = options.learning_rate,
                                       .seed = options.seed};
  settings.clip = 0;
  settings.schedule.decay = soma::optim::Decay::constant;
  settings.optimizer = &optimizer;
  soma::train::TrainerBase trainer(context, model, settings);
  const double start = cpu_seconds();
  const soma::train::Report report = trainer.fit(prefetched);
  const double seconds = cpu_seconds() - start;
  std::cout << report.sequences << " points in " << soma::detail::fixed(seconds, 2)
            << " CPU seconds, " << soma::detail::fixed(report.train_seconds, 2) << " by the clock: "
            << soma::detail::fixed(static_cast<double>(report.sequences) / seconds, 0)
            << " a CPU second; loss " << soma::detail::fixed(report.loss, 4) << ", memory "
            << (soma::peak_resident_bytes() >> 20) << " MiB" << std::endl;
  if (test.count() != 0) print_precision(model, context, test, options.batch_size);
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App app{"Learns which of very many classes points have.", "extreme_classifier"};
  Options options;
  add_options(app, options);
  CLI11_PARSE(app, count, arguments);
  try {
    return run(options);
  } catch (const soma::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
