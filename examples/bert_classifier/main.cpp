// bert_classifier: trains, evaluates and serves a BERT text classifier.
//   0 done, 1 the run failed, 2 it was called wrongly. Errors are one line that ends with an id.

#include "bert_classifier/commands.hpp"
#include "bert_classifier/train/options.hpp"
#include "training/arguments.hpp"
#include "training/launch/job.hpp"
#include "training/launch/launch.hpp"
#include "training/program.hpp"

#include <CLI/CLI.hpp>

#include <string>
#include <utility>
#include <vector>

namespace {

constexpr const char* epilogue = R"(
Examples
  bert_classifier train --output model                      a new model, generated reviews
  bert_classifier train --data reviews.tsv --pretrained minilm --output model
  bert_classifier plan --ranks 4 --memory-limit 2GiB --data reviews.tsv --pretrained minilm
  bert_classifier evaluate --model model --data held_out.tsv
  echo "not a bad film at all" | bert_classifier predict --model model
  bert_classifier embed --model all-MiniLM-L6-v2 texts.txt --output vectors.npy
  bert_classifier serve --model model --port 8080
  mpirun -n 4 bert_classifier train --output model          four ranks, equal weights

A JSON file may hold options with one value each: bert_classifier train --config options.json
Exit code: 0 done, 1 the run failed, 2 the command line cannot be understood.)";

struct Program {
  CLI::App app{"Trains, evaluates and serves BERT text classifiers.", "bert_classifier"};
  TrainOptions train;
  PlanCommand plan;
  EvaluateOptions evaluate;
  PredictOptions predict;
  EmbedOptions embed;
  ServeOptions serve;
  DescribeOptions describe;

  Program() {
    set_up(app, "bert_classifier");
    app.footer(epilogue);
    add_options(add_command(app, "train", "trains a model on labelled texts"), train);
    add_options(add_command(app, "plan", "prints how fast and large a training would be on ranks"),
                plan);
    add_options(add_command(app, "evaluate", "measures a model on labelled rows"), evaluate);
    add_options(add_command(app, "predict", "predicts the class of each line"), predict);
    add_options(add_command(app, "embed", "gives each line a vector"), embed);
    add_options(add_command(app, "serve", "answers over HTTP: GET /ping, POST /invocations"),
                serve);
    add_options(add_command(app, "describe", "describes the machine and the program"), describe);
  }

  // Takes the job's files if the options still have the job's values.
  void take_files(Job job) {
    DataOptions& data = train.data;
    if (job.files.train.empty() || data.data != job.data) return;
    data.files = std::move(job.files);
    if (data.dev != job.dev) data.files.validation = {data.dev};
  }

  int run(Launch& launch, const std::vector<std::string>& command) {
    const std::string name = app.get_subcommands().front()->get_name();
    if (name == "train") return ::train(train, launch, command);
    if (name == "describe") return ::describe(describe);
    check_alone(name);
    if (name == "plan") return ::plan(plan, launch);
    if (name == "evaluate") return ::evaluate(evaluate);
    if (name == "predict") return ::predict(predict);
    if (name == "embed") return ::embed(embed);
    return ::serve(serve);
  }
};

}  // namespace

int main(int count, char** given) {
  prepare_process();
  Launch launch;
  return run_program(launch, [&] {
    Program program;
    std::vector<std::string> arguments(given + 1, given + count);
    Job job;
    std::vector<std::string> command;
    if (is_training_job(arguments)) {
      // The place for failures is known before anything can fail.
      const std::string failures = failure_file_of_job();
      report_failures_to(failures);
      launch.set_failure_file(failures);
      job = read_job(arguments, options_of(program.app, "train", true));
      arguments = job.arguments;
      // A command line cannot name several files.
      command = job.files.train.size() == 1 ? arguments : std::vector<std::string>{"train"};
    } else {
      arguments = arguments_of_server(arguments);
      command = arguments;
    }
    command.insert(command.begin(), given[0]);
    if (!arguments.empty())
      arguments = with_config(arguments, options_of(program.app, arguments.front(), true));
    const bool runs = parse(program.app, std::move(arguments));
    program.take_files(std::move(job));
    return runs ? program.run(launch, command) : 0;
  });
}
