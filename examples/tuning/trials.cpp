#include "tuning/trials.hpp"

#include <soma/base/error.hpp>
#include <soma/base/fixed.hpp>
#include <soma/system/clock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <limits>
#include <thread>

namespace tuning {

namespace {

using soma::fixed;

double clock_seconds() { return static_cast<double>(soma::monotonic_nanoseconds()) * 1e-9; }

// Sets a flag once the processor or the clock is past its time, or another flag is set.
class Watch {
 public:
  Watch(double cpu, double clock, const soma::StopFlag& other)
      : thread_([this, cpu, clock, &other] {
          while (!done_) {
            if (cpu_seconds() > cpu || clock_seconds() > clock || other.requested())
              flag_.request();
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
        }) {}
  ~Watch() {
    done_ = true;
    thread_.join();
  }
  const soma::StopFlag& flag() const { return flag_; }

 private:
  soma::StopFlag flag_;
  std::atomic<bool> done_{false};
  std::thread thread_;
};

std::string line(const Trial& trial, const std::string& rest) {
  return trial.kind + '\t' + rest + '\t' + (trial.options.empty() ? "(rules)" : trial.options);
}

}  // namespace

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void run(const std::vector<Trial>& trials, const Budget& budget, std::string_view quality,
         const std::string& command, const soma::StopFlag& stop, std::ostream& out) {
  constexpr double never = std::numeric_limits<double>::infinity();
  const bool timed = budget.passes == 0;
  out << "kind\t" << quality << (timed ? "\tCPU s\tMiB\tus" : "") << "\toptions\n";
  const double begin = cpu_seconds(), clock = clock_seconds();
  const Trial* best = nullptr;
  double most = 0;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const Trial& trial = trials[i];
    const double start = cpu_seconds(), left = budget.seconds - (start - begin);
    const double share = left / static_cast<double>(trials.size() - i);
    const bool limited = timed && i != 0;
    const std::string missing = timed ? "\t-\t-\t-" : "";
    if (limited && (left <= 0 || clock_seconds() - clock > 1.3 * budget.seconds)) {
      out << line(trial, "not tried" + missing) << '\n';
      continue;
    }
    const Watch watch(limited ? start + share : never,
                      limited ? clock + 1.4 * budget.seconds : never, stop);
    try {
      const Result result = trial.run(watch.flag());
      std::string numbers = fixed(result.quality, 4);
      if (timed)
        numbers += '\t' + fixed(cpu_seconds() - start, 2) + '\t' +
                   fixed(static_cast<double>(result.bytes) / (1 << 20), 1) + '\t' +
                   fixed(result.microseconds, 0);
      out << line(trial, numbers) << std::endl;
      if (best != nullptr && result.quality <= most) continue;
      best = &trial;
      most = result.quality;
    } catch (const soma::Error& error) {
      soma::check_stop(&stop, "train --tune");
      if (i == 0) throw;
      const bool late = error.id() == soma::error_id::stopped;
      out << line(trial, (late ? "not finished" : std::string(error.id().name)) + missing)
          << std::endl;
    }
  }
  out << "best: " << command << (best->options.empty() ? "" : " ") << best->options << '\n';
}

}  // namespace tuning
