#include "training/program.hpp"

#include "training/arguments.hpp"
#include "training/launch/launch.hpp"
#include "training/stop.hpp"

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
    soma::fail(soma::error_id::file_write, "program", "standard output", "closed, or has no room",
               "one that takes what is printed");
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

void refuse_empty(const std::vector<std::string>& arguments) {
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
void refuse_unknown(const CLI::App& app, const std::string& command) {
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

int finish(int code, const std::string& message, Launch& launch) {
  launch.fail(message, code);
  return code;
}

}  // namespace

void prepare_process() {
  keep_streams_apart();
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  std::signal(SIGUSR1, on_signal);  // mpirun forwards SIGUSR1, and follows a SIGTERM with a SIGKILL
  std::signal(SIGPIPE, SIG_IGN);    // writing reports a closed reader
  std::signal(SIGXFSZ, SIG_IGN);    // writing reports the limit of a file's size
}

void report_failures_to(const std::string& path) { failure_file = path; }

std::vector<std::string> options_of(const CLI::App& app, const std::string& command,
                                    bool flags_only) {
  std::vector<std::string> names;
  for (const CLI::App* known : app.get_subcommands({}))
    if (known->get_name() == command)
      for (const CLI::Option* option : known->get_options())
        if (!option->get_lnames().empty() && (!flags_only || option->get_items_expected() == 0))
          names.push_back("--" + option->get_lnames().front());
  return names;
}

bool parse(CLI::App& app, std::vector<std::string> arguments) {
  const std::string command = arguments.empty() ? "" : arguments.front();
  refuse_unknown(app, command);
  // Otherwise CLI11 takes the next word for an empty value, and reports unknown options less
  // clearly.
  refuse_empty(arguments);
  for (const std::string& argument : arguments) {
    if (!argument.starts_with("--") || argument == "--") continue;
    const std::vector<std::string> known = options_of(app, command, false);
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

void set_up(CLI::App& app, const std::string& program) {
  app.require_subcommand(1);
  app.set_version_flag("--version", program + " " + std::to_string(soma::version.major) + "." +
                                        std::to_string(soma::version.minor) + "." +
                                        std::to_string(soma::version.patch));
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

CLI::App& add_command(CLI::App& app, const char* name, const char* help) {
  CLI::App& command = *app.add_subcommand(name, help);
  command.add_option("--config", "options as a JSON object; the command line wins")
      ->type_name("FILE");
  return command;
}

int run_program(Launch& launch, const std::function<int()>& program) {
  try {
    const int code = program();
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
