#pragma once
// StatusPublisher: a callback that keeps a page with the state of a run
// (io/status/status_page.hpp), for soma-top and similar programs. Opt-in: this header includes
// <filesystem>.

#include <soma/io/status/status_page.hpp>
#include <soma/programs/run_mode.hpp>
#include <soma/runtime/clock.hpp>
#include <soma/train/events.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <time.h>

namespace soma::train {

// The command line of this process, its words separated by spaces; empty if the system does not
// report it.
inline std::string own_command() {
  std::string words;
  if (std::FILE* file = std::fopen("/proc/self/cmdline", "re")) {
    char part[512];
    for (std::size_t size; (size = std::fread(part, 1, sizeof part, file)) != 0;)
      words.append(part, size);
    std::fclose(file);
  }
  while (!words.empty() && words.back() == '\0') words.pop_back();
  for (char& c : words)
    if (c == '\0') c = ' ';
  return words;
}

class StatusPublisher final : public Callback {
 public:
  // `command` is the program's command line (own_command()). Error file.write.
  explicit StatusPublisher(std::string_view command, std::string_view model = "",
                           std::string folder = status_folder())
      : page_(std::move(folder), command, model) {}

  // `so_far` gives the predicted time of all that an accelerator's core ran (RunCounts::predicted).
  // From here on the page shows how busy its engines are predicted to be, instead of how busy
  // threads are, whenever the core ran something meanwhile. It is called from on_start() and
  // on_step().
  void show_engines(std::function<PredictedTime()> so_far) { predicted_ = std::move(so_far); }

  void on_start(const RunInfo& run) override {
    RunStatus& status = page_.status();
    status.steps = run.steps;
    status.step = run.first_step;
    last_ = monotonic_nanoseconds();
    busy_.clear();
    measure_threads(0);
    if (predicted_) before_ = predicted_();
    tell();
  }
  // The page is written at most five times a second.
  void on_step(const StepInfo& step) override {
    RunStatus& status = page_.status();
    status.step = step.step;
    status.epoch = step.epoch;
    status.loss = step.loss;
    ++steps_;
    const std::int64_t now = monotonic_nanoseconds();
    const double seconds = static_cast<double>(now - last_) * 1e-9;
    if (seconds < 0.2) return;
    status.steps_per_second = static_cast<double>(steps_) / seconds;
    measure_threads(seconds);
    predict_engines();
    last_ = now;
    steps_ = 0;
    tell();
  }

 private:
  void tell() {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    RunStatus& status = page_.status();
    status.updated = static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
    unsigned long long total = 0, resident = 0;
    if (std::FILE* file = std::fopen("/proc/self/statm", "re")) {
      if (std::fscanf(file, "%llu %llu", &total, &resident) == 2)
        status.resident_bytes = resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
      std::fclose(file);
    }
    page_.publish();
  }

  // Measures each thread's processor time in nanoseconds, and its share since the last call.
  // seconds 0: only notes the times.
  void measure_threads(double seconds) {
    RunStatus& status = page_.status();
    std::map<std::string, unsigned long long> now;
    std::error_code problem;
    std::filesystem::directory_iterator threads("/proc/self/task", problem);
    for (; !problem && threads != std::filesystem::directory_iterator();
         threads.increment(problem)) {
      const std::string path = threads->path().string() + "/schedstat";
      std::FILE* file = std::fopen(path.c_str(), "re");
      if (file == nullptr) continue;
      unsigned long long nanoseconds = 0;
      if (std::fscanf(file, "%llu", &nanoseconds) == 1) now[path] = nanoseconds;
      std::fclose(file);
    }
    status.busy_count = 0;
    for (const auto& [path, nanoseconds] : now) {
      const auto before = busy_.find(path);
      if (before == busy_.end() || seconds <= 0 || status.busy_count == status.busy.size())
        continue;
      const double share = static_cast<double>(nanoseconds - before->second) * 1e-9 / seconds;
      status.busy[status.busy_count++] = share < 1 ? share : 1;
    }
    busy_ = std::move(now);
  }

  // In place of the threads.
  void predict_engines() {
    if (!predicted_) return;
    const PredictedTime now = predicted_();
    const double ns = now.ns - before_.ns;
    RunStatus& status = page_.status();
    status.predicted = ns > 0 ? 1 : 0;
    if (ns > 0) {
      status.busy_count = now.busy_ns.size();
      for (std::size_t i = 0; i < now.busy_ns.size(); ++i)
        status.busy[i] = (now.busy_ns[i] - before_.busy_ns[i]) / ns;
    }
    before_ = now;
  }

  StatusPage page_;
  std::function<PredictedTime()> predicted_;
  PredictedTime before_;
  std::int64_t last_ = 0;
  std::uint64_t steps_ = 0;
  std::map<std::string, unsigned long long> busy_;
};

}  // namespace soma::train
