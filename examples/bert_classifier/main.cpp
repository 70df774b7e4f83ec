// bert_classifier: trains, evaluates and serves a BERT text classifier.
//   0 done, 1 the run failed, 2 it was called wrongly. Errors are one line that ends with an id.

#include "arguments.hpp"
#include "commands.hpp"
#include "launch.hpp"
#include "options.hpp"

#include <soma/base/error.hpp>
#include <soma/base/error_ids.hpp>

#include <csignal>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

soma::train::StopFlag stop_requested;

namespace {

constexpr const char* epilogue = R"(
Examples
  bert_classifier train --output model                      made-up reviews, from nothing
  bert_classifier train --data reviews.tsv --pretrained minilm --output model
  bert_classifier evaluate --model model --data held_out.tsv
  echo "not a bad film at all" | bert_classifier predict --model model
  bert_classifier serve --model model --port 8080
  mpirun -n 4 bert_classifier train --output model          four ranks, the same weights

Any option may stand in a JSON file: bert_classifier train --config options.json
Exit code: 0 done, 1 the run failed, 2 the command line cannot be understood.)";

// The first asks for an orderly end; the second is the system's default.
void on_signal(int number) {
  stop_requested.request();
  std::signal(number, SIG_DFL);
}

struct Program {
  CLI::App app{"Trains, evaluates and serves BERT text classifiers.", "bert_classifier"};
  TrainOptions train;
  EvaluateOptions evaluate;
  PredictOptions predict;
  ServeOptions serve;
  DescribeOptions describe;

  Program() {
    app.require_subcommand(1);
    app.footer(epilogue);
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    command("train", "learns to tell classes of text apart", train);
    command("evaluate", "measures a model on labelled rows", evaluate);
    command("predict", "says the class of each line", predict);
    command("serve", "answers over HTTP: GET /ping, POST /invocations", serve);
    command("describe", "tells what the program runs on", describe);
  }

  template <class Options>
  void command(const char* name, const char* help, Options& options) {
    CLI::App* added = app.add_subcommand(name, help);
    added->add_option("--config", "options as a JSON object; the command line wins")
        ->type_name("FILE");
    add_options(*added, options);
  }

  std::vector<std::string> options_of(const std::string& command, bool flags_only) {
    std::vector<std::string> names;
    for (const CLI::App* known : app.get_subcommands({}))
      if (known->get_name() == command)
        for (const CLI::Option* option : known->get_options())
          if (!option->get_lnames().empty() && (!flags_only || option->get_items_expected() == 0))
            names.push_back("--" + option->get_lnames().front());
    return names;
  }

  void parse(std::vector<std::string> arguments) {
    const std::string command = arguments.empty() ? "" : arguments.front();
    for (const std::string& argument : arguments) {  // before CLI11 says less about it
      if (!argument.starts_with("--") || argument == "--") continue;
      const std::vector<std::string> known = options_of(command, false);
      const std::string name = argument.substr(0, argument.find('='));
      if (known.empty() || std::find(known.begin(), known.end(), name) != known.end()) continue;
      const std::string nearest = nearest_name(name, known);
      throw UsageError("\"" + name + "\" is no option of " + command +
                       (nearest.empty() ? "" : "; is " + nearest + " meant?") + " (see " + command +
                       " --help)");
    }
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(arguments);
  }

  int run(Launch& launch, const std::vector<std::string>& command) {
    const std::string name = app.get_subcommands().front()->get_name();
    if (name == "train") return ::train(train, launch, command);
    if (name == "evaluate") return ::evaluate(evaluate);
    if (name == "predict") return ::predict(predict);
    if (name == "serve") return ::serve(serve);
    return ::describe(describe);
  }
};

int finish(int code, const std::string& message, Launch& launch) {
  launch.fail(message);
  return code;
}

}  // namespace

int main(int count, char** given) {
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGUSR1, on_signal);  // mpirun passes it on; to SIGTERM it adds a SIGKILL soon after
  std::signal(SIGPIPE, SIG_IGN);    // a reader that went away is an error of writing
  Launch launch;
  Program program;
  try {
    std::vector<std::string> arguments(given + 1, given + count);
    if (arguments.empty() && is_training_job()) {
      // Where to write a failure is known before anything can fail.
      launch.set_failure_file(failure_file_of_job());
      arguments = arguments_of_job(program.options_of("train", true));
    }
    std::vector<std::string> command = arguments;
    command.insert(command.begin(), given[0]);
    if (!arguments.empty())
      arguments = with_config(arguments, program.options_of(arguments.front(), true));
    program.parse(std::move(arguments));
    const int code = program.run(launch, command);
    if (!std::cout.flush())
      soma::fail(soma::error_id::file_write, "bert_classifier", "standard output",
                 "closed, or has no room", "one that takes what is printed");
    launch.leave();
    return code;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.app.exit(error);  // --help
    return finish(2, std::string(error.what()) + " [cli.usage]", launch);
  } catch (const LaunchError& error) {
    return finish(2, std::string(error.what()) + " [cli.launch]", launch);
  } catch (const UsageError& error) {
    return finish(2, std::string(error.what()) + " [cli.usage]", launch);
  } catch (const soma::Error& error) {
    return finish(1, error.what(), launch);
  } catch (const std::exception& error) {
    return finish(1, std::string(error.what()) + " [cli.failed]", launch);
  }
}
