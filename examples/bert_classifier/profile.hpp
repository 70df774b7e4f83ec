// --profile: where the time of a step goes.
#pragma once

#include <soma/io/trace.hpp>
#include <soma/ops/profiler.hpp>
#include <soma/train/events.hpp>

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

// Profiles a few steps of a run, the first of which are left to warm up. Their operators are
// printed, the trace of the first of them is written.
class StepProfile final : public soma::train::Callback {
 public:
  StepProfile(soma::Context& context, std::string path, std::ostream& out)
      : context_(context), path_(std::move(path)), out_(out) {}

  void on_step(const soma::train::StepInfo&) override {
    ++step_;
    if (step_ == warm_up) {
      profiler_.emplace(context_);
    } else if (profiler_ && step_ == warm_up + 1) {
      soma::write_trace(path_, *profiler_);
      traced_ = true;
    } else if (step_ == warm_up + steps) {
      finish();
    }
  }
  void on_evaluation(const soma::train::EvaluationInfo&) override { finish(); }
  void on_end(const soma::train::Report&) override {
    finish();
    if (!traced_)
      out_ << "no profile: the run has fewer than " << warm_up + 1 << " steps\n" << std::flush;
  }

 private:
  static constexpr std::uint64_t warm_up = 3, steps = 10;

  void finish() {
    if (profiler_ && traced_)
      out_ << "\nprofile of " << (std::min)(step_ - warm_up, steps) << " steps\n"
           << profiler_->table() << "trace of one step: " << path_ << '\n'
           << std::flush;
    profiler_.reset();
  }

  soma::Context& context_;
  std::string path_;
  std::ostream& out_;
  std::optional<soma::Profiler> profiler_;
  std::uint64_t step_ = 0;
  bool traced_ = false;
};
