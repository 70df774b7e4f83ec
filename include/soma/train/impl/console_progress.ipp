#pragma once
// The functions of console_progress.hpp.

#include <soma/train/console_progress.hpp>

#include <soma/ops/fields.hpp>
#include <soma/system/clock.hpp>
#include <soma/system/process.hpp>
#include <soma/train/report.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <string>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE void fields(FieldVisitor& visitor, ConsoleProgressOptions& options) {
  visitor.option("peak_gflops", options.peak_gflops, NumberRange::at_least(0));
  visitor.option("seconds_between", options.seconds_between, {.least = 0, .infinite = true});
  visitor.option("steps_between", options.steps_between);
}

SOMA_INLINE ConsoleProgress::ConsoleProgress(std::ostream& stream,
                                             const ConsoleProgressOptions& options)
    : stream_(stream), options_(options) {
  check_ranges("ConsoleProgress", options, error_id::train_options);
}

SOMA_INLINE void ConsoleProgress::on_start(const RunInfo& run) {
  run_ = run;
  window_start_ = last_line_ = monotonic_nanoseconds();
  stream_ << "training " << detail::short_number(static_cast<double>(run.parameters))
          << " parameters";
  if (run.steps != 0) stream_ << " for " << run.steps << " steps";
  if (run.first_step != 0) stream_ << ", resumed after step " << run.first_step;
  stream_ << ", " << run.threads << (run.threads == 1 ? " thread" : " threads");
  if (run.ranks != 1) stream_ << " on each of " << run.ranks << " ranks";
  stream_ << '\n' << std::flush;
}

SOMA_INLINE void ConsoleProgress::on_step(const StepInfo& step) {
  // The mean continues over steps that were skipped because their loss is not finite.
  if (!std::isfinite(loss_))
    loss_ = step.loss;
  else if (std::isfinite(step.loss))
    loss_ += 0.05 * (step.loss - loss_);
  ++seen_;
  correct_ += step.correct;
  classified_ += step.classified;
  tokens_ += step.tokens;
  flops_ += step.useful_flops;
  seconds_ += step.seconds;
  const std::int64_t now = monotonic_nanoseconds();
  const double since = static_cast<double>(now - last_line_) * 1e-9;
  const bool due = options_.terminal             ? since >= 0.1
                   : options_.steps_between != 0 ? step.step % options_.steps_between == 0
                                                 : since >= options_.seconds_between;
  if (!due && step.step != run_.steps && seen_ != 1) return;
  last_line_ = now;
  show(line(step));
  if (static_cast<double>(now - window_start_) * 1e-9 < 5) return;
  window_start_ = now;  // rates are those of the last seconds
  classified_ = correct_ = tokens_ = 0;
  flops_ = seconds_ = 0;
}

SOMA_INLINE void ConsoleProgress::on_evaluation(const EvaluationInfo& info) {
  end_line();
  stream_ << "validation after step " << info.step << ": loss " << soma::fixed(info.loss, 4);
  constexpr std::size_t most = 3;  // beside the loss: a line has to hold them
  if (info.values != nullptr)
    for (std::size_t i = 0; i < info.values->size() && i < most; ++i)
      stream_ << ", " << (*info.values)[i].title << ' ' << metrics::shown((*info.values)[i].value);
  stream_ << (info.best ? " (best)\n" : "\n");
  if (info.metrics != nullptr && info.metrics->only_prediction())
    stream_ << "  predicts " << detail::one_class_only(*info.metrics) << '\n';
  stream_ << std::flush;
}

SOMA_INLINE void ConsoleProgress::on_checkpoint(std::uint64_t step) {
  if (options_.terminal) return;  // the line would flicker
  stream_ << "checkpoint after step " << step << '\n' << std::flush;
}

SOMA_INLINE void ConsoleProgress::on_end(const Report&) {
  end_line();
  stream_ << std::flush;
}

SOMA_INLINE std::string ConsoleProgress::line(const StepInfo& step) const {
  using detail::short_number, soma::fixed;
  std::string text = "step " + std::to_string(step.step);
  if (run_.steps != 0) text += "/" + std::to_string(run_.steps);
  text += "  loss " + fixed(loss_, 4);
  if (classified_ != 0)
    text +=
        "  accuracy " + fixed(static_cast<double>(correct_) / static_cast<double>(classified_), 3);
  if (seconds_ > 0) {
    text += "  " + short_number(static_cast<double>(tokens_) / seconds_) + " tokens/s";
    const double gflops = flops_ / seconds_ * 1e-9;
    if (gflops > 0) text += "  " + fixed(gflops, 0) + " GFLOP/s";
    // The peak was measured once, perhaps while other programs used the cores.
    const double share = options_.peak_gflops > 0 ? gflops / options_.peak_gflops : 0;
    if (share > 1)
      text += " (peak not known: the machine was busy)";
    else if (share > 0)
      text += " (" + fixed(100 * share, 0) + " % of peak)";
  }
  if (run_.steps > step.step && seconds_ > 0)
    text += "  " + detail::duration(step.seconds * static_cast<double>(run_.steps - step.step)) +
            " left";
  return text + "  " + detail::bytes(peak_resident_bytes());
}

SOMA_INLINE void ConsoleProgress::show(const std::string& text) {
  if (options_.terminal)
    stream_ << "\r\033[K" << text << std::flush;
  else
    stream_ << text << '\n' << std::flush;
  open_line_ = options_.terminal;
}

SOMA_INLINE void ConsoleProgress::end_line() {
  if (open_line_) stream_ << '\n';
  open_line_ = false;
}

}  // namespace SOMA_NAMESPACE::train
