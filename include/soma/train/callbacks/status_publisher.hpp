#pragma once
// StatusPublisher: a callback that keeps a page with the state of a run
// (io/status/status_page.hpp), for soma-top and similar programs. Opt-in: this header includes
// <filesystem>.

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

// The command line of this process, its words separated by spaces; empty if the system does not
// report it.
std::string own_command();

class StatusPublisher final : public Callback {
 public:
  // `command` is the program's command line (own_command()). Error file.write.
  explicit StatusPublisher(std::string_view command, std::string_view model = "",
                           std::string folder = status_folder())
      : page_(std::move(folder), command, model) {}

  // `so_far` gives the predicted time of all that an accelerator's core ran (RunCounts::predicted).
  // From here on the page shows how busy its engines are predicted to be, instead of how busy
  // threads are, whenever the core ran something meanwhile. `device_bytes` gives the device memory
  // of tensors (Core::hbm_high_water()). Both are called from on_start() and on_step().
  void show_engines(std::function<PredictedTime()> so_far,
                    std::function<std::uint64_t()> device_bytes = {});

  SOMA_INLINE void on_start(const RunInfo& run) override;
  // The page is written at most five times a second.
  SOMA_INLINE void on_step(const StepInfo& step) override;

 private:
  void tell();

  // Measures each thread's processor time in nanoseconds, and its share since the last call.
  // seconds 0: only notes the times.
  void measure_threads(double seconds);

  // In place of the threads.
  void predict_engines();

  StatusPage page_;
  std::function<PredictedTime()> predicted_;
  std::function<std::uint64_t()> device_bytes_;
  PredictedTime before_;
  std::int64_t last_ = 0;
  std::uint64_t steps_ = 0;
  std::map<std::string, unsigned long long> busy_;
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/callbacks/impl/status_publisher.ipp>
#endif
