// soma-top: repeatedly shows the state of runs that publish a page (StatusPublisher,
// bert_classifier --publish).
//   0 done, 1 it failed, 2 it was called wrongly. Errors are one line that ends with an id.

#include "neuron_tools/program.hpp"
#include "neuron_tools/tables.hpp"

#include <soma/base/fixed.hpp>
#include <soma/io/status/status_page.hpp>
#include <soma/neuroncore/order/instruction.hpp>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include <time.h>
#include <unistd.h>

namespace {

volatile std::sig_atomic_t stopped = 0;

double mean_busy(const soma::RunStatus& status) {
  double sum = 0;
  for (std::size_t i = 0; i < status.busy_count; ++i) sum += status.busy[i];
  return status.busy_count == 0 ? 0 : sum / static_cast<double>(status.busy_count);
}

double seconds_ago(const soma::RunStatus& status) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const std::int64_t nanoseconds =
      static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec - status.updated;
  return std::max(0.0, static_cast<double>(nanoseconds) * 1e-9);
}

std::string bar(double share) {
  const auto full = static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * 10 + 0.5);
  return "[" + std::string(full, '#') + std::string(10 - full, '.') + "] " +
         soma::fixed(share * 100, 0) + " %";
}

// The name of the engine that a busy share belongs to; empty for a share of a thread.
std::string engine_name(const soma::RunStatus& status, std::size_t share) {
  using soma::neuroncore::Engine;
  if (status.predicted == 0 || share >= soma::neuroncore::engine_count) return {};
  return std::string(to_string(static_cast<Engine>(share)));
}

std::string text_of(const soma::RunsFound& found) {
  std::vector<tools::Row> rows{{"PID", "MODEL", "STEP", "EPOCH", "IT/S", "LOSS", "CPUS", "MEMORY",
                                "DEVICE", "SEEN", "COMMAND"}};
  for (const soma::RunStatus& status : found.runs)
    rows.push_back(
        {std::to_string(status.process), tools::printable(status.model.data()),
         std::to_string(status.step) +
             (status.steps != 0 ? "/" + std::to_string(status.steps) : ""),
         std::to_string(status.epoch + 1), soma::fixed(status.steps_per_second, 2),
         soma::fixed(status.loss, 4), soma::fixed(status.cpus, 1),
         std::to_string(status.resident_bytes >> 20) + " MiB",
         status.device_bytes == 0 ? "-" : std::to_string(status.device_bytes >> 20) + " MiB",
         soma::fixed(seconds_ago(status), 1) + " s ago",
         tools::printable(status.command.data()).substr(0, 60)});
  std::string text = tools::table(rows);
  for (const soma::RunStatus& status : found.runs) {
    if (status.busy_count == 0) continue;
    text += "\n" + std::to_string(status.process) +
            (status.predicted != 0 ? " engines, predicted: " : " threads, measured: ") + "mean " +
            soma::fixed(mean_busy(status) * 100, 0) + " %\n";
    for (std::size_t i = 0; i < status.busy_count; ++i) {
      const std::string name = engine_name(status, i);
      text += (i % 4 == 0 ? "  " : "   ") + name + (name.empty() ? "" : " ") + bar(status.busy[i]) +
              (i % 4 == 3 || i + 1 == status.busy_count ? "\n" : "");
    }
  }
  if (found.runs.empty()) text += "no run publishes a page\n";
  for (const std::string& line : found.left_out) text += "left out: " + line + "\n";
  return text;
}

nlohmann::ordered_json json_of(const soma::RunsFound& found) {
  using Json = nlohmann::ordered_json;
  Json all{{"runs", Json::array()}, {"left_out", found.left_out}};
  for (const soma::RunStatus& status : found.runs) {
    Json busy = Json::array(), engines = Json::array();
    for (std::size_t i = 0; i < status.busy_count; ++i) {
      busy.push_back(status.busy[i]);
      if (status.predicted != 0) engines.push_back(engine_name(status, i));
    }
    all["runs"].push_back({{"pid", status.process},
                           {"command", status.command.data()},
                           {"model", status.model.data()},
                           {"step", status.step},
                           {"steps", status.steps},
                           {"epoch", status.epoch},
                           {"steps_per_second", status.steps_per_second},
                           {"loss", status.loss},
                           {"cpus", status.cpus},
                           {"resident_bytes", status.resident_bytes},
                           {"device_bytes", status.device_bytes},
                           {"busy", busy},
                           {"busy_is", status.predicted != 0 ? "predicted" : "measured"},
                           {"engines", engines},
                           {"seconds_ago", seconds_ago(status)}});
  }
  return all;
}

void show(const std::string& folder, bool json, bool clear) {
  const soma::RunsFound found = soma::runs_in(folder);
  if (json) {
    std::cout << json_of(found).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)
              << '\n'
              << std::flush;
    return;
  }
  // Moves the cursor home, prints the text, and clears the rest of an earlier, longer text.
  std::string text = text_of(found);
  if (clear) {
    for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 4)
      text.insert(at, "\x1b[K");
    text = "\x1b[H" + text + "\x1b[J";
  }
  std::cout << text << std::flush;
}

void watch(std::string folder, double every, bool once, bool json) {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { stopped = 1; });
  if (folder.empty()) folder = soma::status_folder();
  const bool clear = !once && !json && ::isatty(STDOUT_FILENO) != 0;
  if (clear) std::cout << "\x1b[2J";
  for (;;) {
    show(folder, json, clear);
    if (once || stopped != 0 || !std::cout) return;
    const auto whole = static_cast<time_t>(every);
    const timespec pause{whole, static_cast<long>((every - static_cast<double>(whole)) * 1e9)};
    if (::nanosleep(&pause, nullptr) != 0 && errno == EINTR && stopped != 0) return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Shows the progress of soma programs that publish a status page.", "soma-top");
  std::string folder;
  bool once = false, json = false;
  double every = 1;
  app.add_option("--folder", folder, "folder of status pages; default: $XDG_RUNTIME_DIR/soma");
  app.add_option("--every", every, "seconds between two updates")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  app.add_flag("--once", once, "show it once and end");
  app.add_flag("--json", json, "one JSON object for each update, a line each");
  return tools::run_program(app, argc, argv, [&] { watch(folder, every, once, json); });
}
