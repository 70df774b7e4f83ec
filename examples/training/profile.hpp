// --profile: the time of a step, operator by operator.
#pragma once

#include <soma/io/trace.hpp>
#include <soma/ops/profiler.hpp>
#include <soma/train/events.hpp>

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

// Profiles a few steps of a run; the first ones are a warm-up. It prints their operators, and
// writes the trace of the first profiled step. Work between steps, such as evaluations and
// checkpoints, is in neither, because each step has a profiler of its own.
class StepProfile final : public soma::train::Callback {
 public:
  StepProfile(soma::Context& context, std::string path, std::ostream& out)
      : context_(context), path_(std::move(path)), out_(out) {}

  void on_step(const soma::train::StepInfo&) override {
    ++step_;
    if (profiler_) add_step();
    if (step_ >= warm_up && profiled_ < steps)
      profiler_.emplace(context_);
    else if (profiler_)
      finish();
  }
  void on_evaluation(const soma::train::EvaluationInfo&) override { begin_again(); }
  void on_checkpoint(std::uint64_t) override { begin_again(); }
  void on_end(const soma::train::Report&) override {
    finish();
    if (profiled_ == 0)
      out_ << "no profile: the run has fewer than " << warm_up + 1 << " steps\n" << std::flush;
  }

 private:
  static constexpr std::uint64_t warm_up = 3, steps = 10;

  // Adds the step that has just ended.
  void add_step() {
    seconds_ += profiler_->seconds_so_far();
    for (const soma::ProfileRow& row : profiler_->rows()) soma::add_profile_row(rows_, row);
    if (profiled_++ == 0) soma::write_trace(path_, *profiler_);
  }
  // Forgets the work since the last step, which was no step.
  void begin_again() {
    if (profiler_) profiler_.emplace(context_);
  }
  void finish() {
    if (profiled_ != 0 && !printed_)
      out_ << "\nprofile of " << profiled_ << " steps\n"
           << soma::Profiler::table(rows_, seconds_) << "trace of one step: " << path_ << '\n'
           << std::flush;
    printed_ = profiled_ != 0;
    profiler_.reset();
  }

  soma::Context& context_;
  std::string path_;
  std::ostream& out_;
  std::optional<soma::Profiler> profiler_;
  std::vector<soma::ProfileRow> rows_;
  double seconds_ = 0;
  std::uint64_t step_ = 0, profiled_ = 0;
  bool printed_ = false;
};
