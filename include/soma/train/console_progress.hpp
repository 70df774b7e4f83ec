#pragma once
// ConsoleProgress: the progress of a run on a stream of the host. On a terminal it rewrites one
// line; elsewhere it writes a line now and then. Opt-in: this header includes <ostream>.

#include <soma/system/clock.hpp>
#include <soma/system/process.hpp>
#include <soma/train/report.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>

namespace SOMA_NAMESPACE {
class FieldVisitor;  // ops/fields.hpp
}

namespace SOMA_NAMESPACE::train {

struct ConsoleProgressOptions {
  bool terminal = false;            // isatty() of the stream, which only the host knows
  double peak_gflops = 0;           // for all threads; 0: no share of the peak is shown
  double seconds_between = 10;      // seconds from one line to the next, without a terminal
  std::uint64_t steps_between = 0;  // steps from one line to the next; 0: seconds_between decides
};
void fields(FieldVisitor& visitor, ConsoleProgressOptions& options);

class ConsoleProgress final : public Callback {
 public:
  // Error train.options: a number out of its range.
  explicit ConsoleProgress(std::ostream& stream, const ConsoleProgressOptions& options = {});

  SOMA_INLINE void on_start(const RunInfo& run) override;

  SOMA_INLINE void on_step(const StepInfo& step) override;

  SOMA_INLINE void on_evaluation(const EvaluationInfo& info) override;
  SOMA_INLINE void on_checkpoint(std::uint64_t step) override;
  SOMA_INLINE void on_end(const Report&) override;

 private:
  std::string line(const StepInfo& step) const;
  void show(const std::string& text);
  void end_line();

  std::ostream& stream_;
  ConsoleProgressOptions options_;
  RunInfo run_{};
  std::int64_t window_start_ = 0, last_line_ = 0;
  std::uint64_t seen_ = 0, classified_ = 0, correct_ = 0, tokens_ = 0;
  double loss_ = std::numeric_limits<double>::quiet_NaN();  // before the first
  double flops_ = 0, seconds_ = 0;
  bool open_line_ = false;
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/console_progress.ipp>
#endif
