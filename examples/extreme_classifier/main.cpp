// extreme_classifier: classifies points with few features into very many classes. It learns from
// files in the format of repositories of extreme classification, or from made-up points.
//   0 done, 1 the run failed or was interrupted, 2 it was called wrongly. Errors are one line that
//   ends with an id.

#include "extreme_classifier/options.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <vector>

namespace {

void add_reading(CLI::App& app, std::size_t& max_line_bytes,
                 soma::metrics::PropensityOptions& propensity) {
  app.add_option("--max-line-bytes", max_line_bytes, "longest line of a file of points")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--propensity-a", propensity.a, "constant A of PSP@k")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--propensity-b", propensity.b, "constant B of PSP@k")
      ->check(CLI::Range(0.0, 1000.0))
      ->capture_default_str();
}

void add_texts(CLI::App& app, CLI::Option* data, TextOptions& form) {
  const std::vector<CLI::Option*> all{
      app.add_flag("--multi-label", form.multi_label, "rows have several labels, or none"),
      app.add_option("--header", form.header, "whether the first row names the columns")
          ->check(CLI::IsMember({"detect", "yes", "no"}))
          ->capture_default_str(),
      app.add_option("--text-column", form.text_column, "name or number of the texts' column"),
      app.add_option("--label-column", form.label_column, "name or number of the labels' column")};
  for (CLI::Option* option : all) option->needs(data)->group("Rows of texts");
}

void add_train(CLI::App& app, TrainOptions& options) {
  CLI::Option* data = app.add_option("--data", options.data,
                                     "XMC or libsvm file; or texts with labels: TSV, CSV, JSON "
                                     "lines, fastText (.ft.txt); also .gz");
  app.add_option("--test", options.test, "the same of test points")->needs(data);
  add_texts(app, data, options.texts);
  app.add_option("--classes", options.classes, "classes of generated points")
      ->excludes(data)
      ->capture_default_str();
  app.add_option("--features", options.features, "features of generated points")
      ->excludes(data)
      ->capture_default_str();
  app.add_option("--points", options.points, "generated points to train on")
      ->excludes(data)
      ->capture_default_str();
  add_reading(app, options.max_line_bytes, options.propensity);
  app.add_option("--label-names", options.label_names,
                 "file of the names of classes, a line each; the model's folder keeps them")
      ->needs(data);
  app.add_option("--output", options.output, "folder for the model");
  app.add_option("--kind", options.kind,
                 "linear: a weight for each feature and class; tree: a tree of such models; "
                 "network: embeddings; automatic: linear up to 2000 classes that fit into memory, "
                 "else tree")
      ->check(CLI::IsMember({"automatic", "linear", "tree", "network"}))
      ->capture_default_str();
  app.add_option("--epochs", options.epochs,
                 "passes over the points; 0: 8 of a linear model, 4 of a tree, 1 of a network");
  app.add_option("--seed", options.seed, "seed of initial weights, order and sets")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "threads; 0: the cores that this process may use");
  std::vector<CLI::Option*> linear{
      app.add_option("--c", options.c,
                     "C of the linear models; 0: chosen by a tenth of the points, or 1 of a tree")
          ->check(CLI::NonNegativeNumber),
      app.add_option("--beam", options.beam, "nodes of a level of the tree that answers follow")
          ->check(CLI::PositiveNumber)
          ->capture_default_str(),
      app.add_option("--memory-limit", options.memory_mib,
                     "most MiB for weights and dual values; 0: half of the machine's memory"),
      app.add_flag("--raw-values", options.raw_values,
                   "values as they are, not weighted by the features' frequencies")};
  CLI::Option* folder =
      app.add_option("--checkpoint", options.checkpoint, "folder for checkpoints");
  std::vector<CLI::Option*> network{
      folder,
      app.add_option("--sampler", options.sampler,
                     "how classes of a batch are chosen; default: by the number of classes")
          ->check(CLI::IsMember({"full", "uniform", "lsh_shared", "lsh_per_sample"})),
      app.add_option("--set", options.set,
                     "classes in the loss of a batch, or of a point with lsh_per_sample; 0: 2048, "
                     "or 256 with lsh_per_sample"),
      app.add_option("--tables", options.tables,
                     "tables of hashes; 0: 32, or as many as fit into the memory limit"),
      app.add_option("--codes", options.codes,
                     "codes of a table, 1 to 5; 0: by the number of classes"),
      app.add_option("--refresh-every", options.refresh_every,
                     "steps between refreshes of the index")
          ->capture_default_str(),
      app.add_option("--index-memory", options.index_mib, "most MiB for tables of hashes")
          ->capture_default_str(),
      app.add_option("--width", options.width, "width of the hidden layer")->capture_default_str(),
      app.add_option("--batch-size", options.batch_size, "points")->capture_default_str(),
      app.add_option("--max-steps", options.max_steps,
                     "end after this many steps; 0: after all epochs"),
      app.add_option("--learning-rate", options.learning_rate, "learning rate of Adam")
          ->capture_default_str(),
      app.add_option("--checkpoint-every", options.checkpoint_every,
                     "steps between checkpoints; 0: one checkpoint at the end")
          ->needs(folder),
      app.add_flag("--resume", options.resume, "resume from the newest checkpoint")->needs(folder),
      app.add_flag("--report", options.report,
                   "also print shares of the time, touched rows, and the recall of the hashes")};
  for (CLI::Option* option : linear) option->group("Linear models and trees");
  for (CLI::Option* option : network) option->group("Networks (each chooses --kind network)");
  app.add_option("--tune", options.tune,
                 "try kinds and settings by held-out points for so many seconds of the processor, "
                 "and print a table and the best command line; nothing is written")
      ->check(CLI::Range(0.0, 1e7))
      ->expected(0, 1)
      ->default_str("20")
      ->excludes(folder);
  app.add_option("--tune-passes", options.tune_passes,
                 "trials have so many passes instead of a time: the same table every time")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1000}))
      ->excludes(folder);
  // An option of one kind chooses the kind, and contradicts another one.
  app.callback([&options, linear, network] {
    const auto given = [](const std::vector<CLI::Option*>& all) -> const CLI::Option* {
      const auto found = std::find_if(all.begin(), all.end(),
                                      [](const CLI::Option* one) { return one->count() > 0; });
      return found == all.end() ? nullptr : *found;
    };
    const CLI::Option *of_network = given(network), *of_linear = given(linear);
    if (of_network != nullptr && of_linear != nullptr)
      throw CLI::ValidationError(of_linear->get_name() + " and " + of_network->get_name(),
                                 "options of two kinds of model");
    if (of_network != nullptr && options.kind == "automatic") options.kind = "network";
    if (of_network != nullptr && options.kind != "network")
      throw CLI::ValidationError(of_network->get_name(), "an option of --kind network");
    if (of_linear != nullptr && options.kind == "network")
      throw CLI::ValidationError(of_linear->get_name(), "not an option of --kind network");
  });
}

void add_answer(CLI::App& app, AnswerOptions& options, bool answers) {
  app.add_option("--model", options.model, "folder that train --output wrote")->required();
  CLI::Option* data =
      app.add_option(answers ? "data" : "--data", options.data,
                     answers ? "points; or texts, a line each; also .gz; - is standard input"
                             : "XMC or libsvm file, or texts with labels; also .gz");
  if (answers) {
    data->default_str("-");
    options.data = "-";
    app.add_option("--top", options.top, "classes to print for each point")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
  } else {
    app.add_option("--seed", options.seed,
                   "seed of the training run on generated points; evaluate generates other points "
                   "of this seed")
        ->excludes(data)
        ->capture_default_str();
    app.add_option("--points", options.test_points, "number of generated points")
        ->excludes(data)
        ->capture_default_str();
    add_texts(app, data, options.texts);
  }
  add_reading(app, options.max_line_bytes, options.propensity);
  app.add_flag("--sparse", options.sparse, "find the likeliest classes by hashes");
  app.add_option("--tables", options.tables, "tables of hashes; 0: as in training");
  app.add_option("--codes", options.codes, "codes of a table; 0: as in training");
  app.add_option("--head", options.head, "the longest rows, which each answer always considers")
      ->capture_default_str();
  app.add_option("--candidates", options.candidates, "most classes that an answer considers")
      ->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "points")->capture_default_str();
  app.add_option("--threads", options.threads, "threads; 0: the cores that this process may use");
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App app{"Classifies sparse points into very many classes.", "extreme_classifier"};
  app.require_subcommand(1);
  TrainOptions training;
  AnswerOptions evaluating, answering;
  CLI::App* const trains = app.add_subcommand("train", "learns from points, and saves a model");
  CLI::App* const evaluates =
      app.add_subcommand("evaluate", "measures a model: P@k, nDCG@k, PSP@k");
  CLI::App* const predicts = app.add_subcommand(
      "predict", "prints a line for each point: class:score, the likeliest class first");
  add_train(*trains, training);
  add_answer(*evaluates, evaluating, false);
  add_answer(*predicts, answering, true);
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  std::signal(SIGINT, [](int) { stop_requested.request(); });
  std::signal(SIGTERM, [](int) { stop_requested.request(); });
  try {
    if (*evaluates) return evaluate(evaluating);
    return *predicts ? predict(answering) : train(training);
  } catch (const soma::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
