// extreme_classifier: learns which of very many classes a sparse point has. Reads files in the
// format of the Extreme Classification Repository, or generates points.
//   0 done, 1 the run failed or was interrupted, 2 wrong usage. Errors are one line that ends with
//   an id.

#include "extreme_classifier/options.hpp"

#include <CLI/CLI.hpp>

#include <csignal>
#include <iostream>

namespace {

void add_train(CLI::App& app, TrainOptions& options) {
  CLI::Option* data = app.add_option("--data", options.data, "XMC or libsvm file, also .gz");
  app.add_option("--test", options.test, "the same, to measure by")->needs(data);
  app.add_option("--classes", options.classes, "of made-up points")
      ->excludes(data)
      ->capture_default_str();
  app.add_option("--features", options.features, "of made-up points")
      ->excludes(data)
      ->capture_default_str();
  app.add_option("--points", options.points, "made-up ones to train on")
      ->excludes(data)
      ->capture_default_str();
  app.add_option("--output", options.output, "folder for the model");
  app.add_option("--sampler", options.sampler, "default: by the number of classes")
      ->check(CLI::IsMember({"full", "uniform", "lsh_shared", "lsh_per_sample"}));
  app.add_option("--set", options.set,
                 "classes that a batch is trained against, or a point of lsh_per_sample; 0: 2048, "
                 "256");
  app.add_option("--tables", options.tables, "of hashes; 0: 32, or what the memory holds");
  app.add_option("--codes", options.codes, "of a table, 1 to 5; 0: by the number of classes");
  app.add_option("--refresh-every", options.refresh_every, "steps between refreshes of the index")
      ->capture_default_str();
  app.add_option("--index-memory", options.index_mib, "MiB that tables of hashes may take")
      ->capture_default_str();
  app.add_option("--width", options.width, "of the hidden layer")->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "points")->capture_default_str();
  app.add_option("--epochs", options.epochs, "passes over the points")->capture_default_str();
  app.add_option("--max-steps", options.max_steps, "0: never before the epochs");
  app.add_option("--learning-rate", options.learning_rate, "of Adam")->capture_default_str();
  app.add_option("--seed", options.seed, "of first weights, order and sets")->capture_default_str();
  app.add_option("--threads", options.threads, "0: the cores this process may use");
  CLI::Option* folder = app.add_option("--checkpoint", options.checkpoint, "folder to go on from");
  app.add_option("--checkpoint-every", options.checkpoint_every, "steps; 0: at the end")
      ->needs(folder);
  app.add_flag("--resume", options.resume, "go on from the newest checkpoint")->needs(folder);
  app.add_flag("--report", options.report,
               "also say where the time goes, which rows are touched, what hashes find");
  app.add_flag("--tune", options.tune,
               "try samplers and sets for two seconds, recommend one, and train nothing");
}

void add_answer(CLI::App& app, AnswerOptions& options, bool answers) {
  app.add_option("--model", options.model, "folder that train --output wrote")->required();
  CLI::Option* data =
      app.add_option(answers ? "data" : "--data", options.data, "XMC or libsvm file, also .gz");
  if (answers) {
    data->required();
    app.add_option("--top", options.top, "classes of an answer")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
  } else {
    app.add_option("--seed", options.seed, "of training on made-up points; others are made up here")
        ->excludes(data)
        ->capture_default_str();
    app.add_option("--points", options.test_points, "made-up ones")
        ->excludes(data)
        ->capture_default_str();
  }
  app.add_flag("--sparse", options.sparse, "find the likeliest classes by hashes");
  app.add_option("--tables", options.tables, "of hashes; 0: as in training");
  app.add_option("--codes", options.codes, "of a table; 0: as in training");
  app.add_option("--head", options.head, "longest rows that each answer looks at")
      ->capture_default_str();
  app.add_option("--candidates", options.candidates, "classes that an answer looks at, at most")
      ->capture_default_str();
  app.add_option("--batch-size", options.batch_size, "points")->capture_default_str();
  app.add_option("--threads", options.threads, "0: the cores this process may use");
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App app{"Learns which of very many classes points have.", "extreme_classifier"};
  app.require_subcommand(1);
  TrainOptions training;
  AnswerOptions answering;
  CLI::App* const trains = app.add_subcommand("train", "learns from points, and saves a model");
  CLI::App* const evaluates = app.add_subcommand("evaluate", "measures a model: P@1, P@3, P@5");
  CLI::App* const predicts = app.add_subcommand(
      "predict", "prints a line for each point: class:score, the likeliest class first");
  add_train(*trains, training);
  add_answer(*evaluates, answering, false);
  add_answer(*predicts, answering, true);
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  std::signal(SIGINT, [](int) { stop_requested.request(); });
  std::signal(SIGTERM, [](int) { stop_requested.request(); });
  try {
    if (*evaluates) return evaluate(answering);
    return *predicts ? predict(answering) : train(training);
  } catch (const soma::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
