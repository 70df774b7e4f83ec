#pragma once
// The functions of status_publisher.hpp.

#include <soma/train/callbacks/status_publisher.hpp>

#include <soma/io/status/status_page.hpp>
#include <soma/programs/run_mode.hpp>
#include <soma/system/clock.hpp>
#include <soma/system/process.hpp>
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

namespace SOMA_NAMESPACE::train {

SOMA_INLINE std::string own_command() {
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

SOMA_INLINE void StatusPublisher::show_engines(std::function<PredictedTime()> so_far,
                                               std::function<std::uint64_t()> device_bytes) {
  predicted_ = std::move(so_far);
  device_bytes_ = std::move(device_bytes);
}

SOMA_INLINE void StatusPublisher::on_start(const RunInfo& run) {
  RunStatus& status = page_.status();
  status.steps = run.steps;
  status.step = run.first_step;
  last_ = monotonic_nanoseconds();
  busy_.clear();
  measure_threads(0);
  if (predicted_) before_ = predicted_();
  tell();
}

SOMA_INLINE void StatusPublisher::on_step(const StepInfo& step) {
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

SOMA_INLINE void StatusPublisher::tell() {
  RunStatus& status = page_.status();
  status.updated = system::time_of_day();
  if (const std::uint64_t resident = system::resident_bytes(); resident != 0)
    status.resident_bytes = resident;
  page_.publish();
}

SOMA_INLINE void StatusPublisher::measure_threads(double seconds) {
  RunStatus& status = page_.status();
  std::map<std::string, unsigned long long> now;
  std::error_code problem;
  std::filesystem::directory_iterator threads("/proc/self/task", problem);
  for (; !problem && threads != std::filesystem::directory_iterator(); threads.increment(problem)) {
    const std::string path = threads->path().string() + "/schedstat";
    std::FILE* file = std::fopen(path.c_str(), "re");
    if (file == nullptr) continue;
    unsigned long long nanoseconds = 0;
    if (std::fscanf(file, "%llu", &nanoseconds) == 1) now[path] = nanoseconds;
    std::fclose(file);
  }
  status.busy_count = 0;
  status.cpus = 0;
  for (const auto& [path, nanoseconds] : now) {
    const auto before = busy_.find(path);
    if (before == busy_.end() || seconds <= 0) continue;
    const double share = static_cast<double>(nanoseconds - before->second) * 1e-9 / seconds;
    status.cpus += share;
    if (status.busy_count == status.busy.size()) continue;
    status.busy[status.busy_count++] = share < 1 ? share : 1;
  }
  busy_ = std::move(now);
}

SOMA_INLINE void StatusPublisher::predict_engines() {
  if (device_bytes_) page_.status().device_bytes = device_bytes_();
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

}  // namespace SOMA_NAMESPACE::train
