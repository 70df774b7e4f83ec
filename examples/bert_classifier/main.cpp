// bert_classifier: trains, evaluates and serves a BERT text classifier.
//   0 done, 1 the run failed, 2 it was called wrongly. Errors are one line that ends with an id.

#include "bert_classifier/arguments.hpp"
#include "bert_classifier/commands.hpp"
#include "bert_classifier/launch/job.hpp"
#include "bert_classifier/launch/launch.hpp"
#include "bert_classifier/train/options.hpp"

#include <soma/base/error.hpp>
#include <soma/base/error_ids.hpp>
#include <soma/base/version.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

soma::train::StopFlag stop_requested;

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

A JSON file may hold any option: bert_classifier train --config options.json
Exit code: 0 done, 1 the run failed, 2 the command line cannot be understood.)";

// A file that is opened later would take a closed stream's descriptor and get the program's output.
// Occupies a closed descriptor with /dev/null opened in the opposite mode, so that reading or
// writing it still fails.
void keep_streams_apart() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      static_cast<void>(::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY));
}

void flush_output() {
  if (!std::cout.flush())
    soma::fail(soma::error_id::file_write, "bert_classifier", "standard output",
               "closed, or has no room", "one that takes what is printed");
}

// The file in which a job reports why it ended; an end by a second signal reports there too.
std::string failure_file;

std::array<volatile std::sig_atomic_t, 65> seen{};  // index: the number of the signal

// The first signal asks for an orderly end; a second one of the same kind ends the program at once.
void on_signal(int number) {
  const auto at = static_cast<std::size_t>(number);
  if (at < seen.size() && seen[at] == 0) {
    seen[at] = 1;
    return stop_requested.request();
  }
  constexpr std::string_view reason = "train: ended at once by a second signal [cli.interrupted]\n";
  if (!failure_file.empty()) {
    const int file = ::open(failure_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    static_cast<void>(!::write(file, reason.data(), reason.size()));
  }
  // The first process of a container gets no default action for signals, so it must end itself.
  if (::getpid() == 1) ::_exit(128 + number);
  std::signal(number, SIG_DFL);
  ::raise(number);
}

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
    app.require_subcommand(1);
    app.footer(epilogue);
    app.set_version_flag("--version", "bert_classifier " + std::to_string(soma::version.major) +
                                          "." + std::to_string(soma::version.minor) + "." +
                                          std::to_string(soma::version.patch));
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    command("train", "trains a model on labelled texts", train);
    command("plan", "prints how fast and large a training would be on ranks", plan);
    command("evaluate", "measures a model on labelled rows", evaluate);
    command("predict", "predicts the class of each line", predict);
    command("embed", "gives each line a vector", embed);
    command("serve", "answers over HTTP: GET /ping, POST /invocations", serve);
    command("describe", "describes the machine and the program", describe);
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

  static void refuse_empty(const std::vector<std::string>& arguments) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const std::string& argument = arguments[i];
      const std::size_t end = argument.find('=');
      if (argument.starts_with("--") && end != argument.npos && end + 1 == argument.size())
        throw UsageError(argument.substr(0, end) + " is given an empty value");
      if (!argument.empty()) continue;
      throw UsageError("an empty word on the command line" +
                       (i == 0 ? std::string() : ", behind " + arguments[i - 1]));
    }
  }

  // Refuses a first word that is no command.
  void refuse_unknown(const std::string& command) const {
    if (command.empty() || command.starts_with("-")) return;
    std::vector<std::string> known;
    std::string all;
    for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
      known.push_back(one->get_name());
      all.append(all.empty() ? "" : ", ").append(one->get_name());
    }
    if (std::find(known.begin(), known.end(), command) != known.end()) return;
    const std::string nearest = nearest_name(command, known);
    throw UsageError(soma::quoted(command) + " is no command" +
                     (nearest.empty() ? ", wanted one of " + all : "; is " + nearest + " meant?") +
                     " (see --help)");
  }

  // Returns false if only help or the version was requested, which is printed.
  bool parse(std::vector<std::string> arguments) {
    const std::string command = arguments.empty() ? "" : arguments.front();
    refuse_unknown(command);
    // Otherwise CLI11 takes the next word for an empty value, and reports unknown options less
    // clearly.
    refuse_empty(arguments);
    for (const std::string& argument : arguments) {
      if (!argument.starts_with("--") || argument == "--") continue;
      const std::vector<std::string> known = options_of(command, false);
      const std::string name = argument.substr(0, argument.find('='));
      if (known.empty() || std::find(known.begin(), known.end(), name) != known.end()) continue;
      const std::string nearest = nearest_name(name, known);
      throw UsageError("\"" + name + "\" is no option of " + command +
                       (nearest.empty() ? "" : "; is " + nearest + " meant?") + " (see " + command +
                       " --help)");
    }
    std::reverse(arguments.begin(), arguments.end());  // CLI11 wants the arguments in reverse
    try {
      app.parse(arguments);
    } catch (const CLI::Success& asked) {
      app.exit(asked);
      return false;
    }
    return true;
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

int finish(int code, const std::string& message, Launch& launch) {
  launch.fail(message, code);
  return code;
}

}  // namespace

int main(int count, char** given) {
  keep_streams_apart();
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGUSR1, on_signal);  // mpirun forwards SIGUSR1, and follows a SIGTERM with a SIGKILL
  std::signal(SIGPIPE, SIG_IGN);    // writing reports a closed reader
  std::signal(SIGXFSZ, SIG_IGN);    // writing reports the limit of a file's size
  Launch launch;
  try {
    Program program;
    std::vector<std::string> arguments(given + 1, given + count);
    Job job;
    std::vector<std::string> command;
    if (is_training_job(arguments)) {
      // The place for failures is known before anything can fail.
      failure_file = failure_file_of_job();
      launch.set_failure_file(failure_file);
      job = read_job(arguments, program.options_of("train", true));
      arguments = job.arguments;
      // A command line cannot name several files.
      command = job.files.train.size() == 1 ? arguments : std::vector<std::string>{"train"};
    } else {
      arguments = arguments_of_server(arguments);
      command = arguments;
    }
    command.insert(command.begin(), given[0]);
    if (!arguments.empty())
      arguments = with_config(arguments, program.options_of(arguments.front(), true));
    const bool runs = program.parse(std::move(arguments));
    program.take_files(std::move(job));
    const int code = runs ? program.run(launch, command) : 0;
    flush_output();
    launch.leave();
    return code;
  } catch (const CLI::ParseError& error) {
    return finish(2, std::string(error.what()) + " [cli.usage]", launch);
  } catch (const LaunchError& error) {
    return finish(2, std::string(error.what()) + " [cli.launch]", launch);
  } catch (const UsageError& error) {
    return finish(2, std::string(error.what()) + " [cli.usage]", launch);
  } catch (const Interrupted& error) {
    launch.give_up(std::string(error.what()) + " [cli.interrupted]");
    return 1;
  } catch (const soma::Error& error) {
    if (error.id() == soma::error_id::stopped) {
      launch.give_up("ended by a signal before it was done (" + std::string(error.what()) +
                     ") [cli.interrupted]");
      return 1;
    }
    return finish(1, error.what(), launch);
  } catch (const std::exception& error) {
    return finish(1, std::string(error.what()) + " [cli.failed]", launch);
  } catch (...) {
    return finish(1, "an exception that is no std::exception was thrown [cli.failed]", launch);
  }
}
