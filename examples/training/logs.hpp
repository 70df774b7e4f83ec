// Logs of a run for other tools: JSON lines and TensorBoard's event files.
#pragma once

#include <soma/io/json_lines.hpp>
#include <soma/programs/device_scalars.hpp>
#include <soma/system/process.hpp>
#include <soma/tensorboard.hpp>
#include <soma/train/events.hpp>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

// Drops a log that can no longer be written, for example on a full disk: a line reports it, a
// checkpoint is written, and the run continues. `Log` is a Callback.
template <class Log>
class Expendable final : public soma::train::Callback {
 public:
  template <class... Arguments>
  explicit Expendable(Arguments&&... arguments) {
    attempt([&] { log_.emplace(std::forward<Arguments>(arguments)...); });
  }

  void on_start(const soma::train::RunInfo& run) override {
    write([&](Log& log) { log.on_start(run); });
  }
  void on_step(const soma::train::StepInfo& step) override {
    write([&](Log& log) { log.on_step(step); });
  }
  void on_evaluation(const soma::train::EvaluationInfo& info) override {
    write([&](Log& log) { log.on_evaluation(info); });
  }
  void on_checkpoint(std::uint64_t step) override {
    write([&](Log& log) { log.on_checkpoint(step); });
  }
  void on_end(const soma::train::Report& report) override {
    write([&](Log& log) { log.on_end(report); });
  }

  // Calls write(log) unless an earlier call failed.
  template <class Write>
  void write(const Write& write) {
    if (log_) attempt([&] { write(*log_); });
  }

 private:
  template <class Action>
  void attempt(const Action& action) {
    try {
      action();
    } catch (const soma::Error& error) {
      if (error.id() != soma::error_id::file_write) throw;
      log_.reset();
      std::cerr << error.what() << "; the run goes on without it\n" << std::flush;
      save_run();
    }
  }

  std::optional<Log> log_;  // empty: the log cannot be written
};

class JsonLog final : public soma::train::Callback {
 public:
  // With several ranks, lines name the rank.
  JsonLog(const std::string& path, bool resumes, int rank, int ranks)
      : file_(path, resumes ? soma::ExistingFile::append : soma::ExistingFile::replace),
        rank_(rank),
        ranks_(ranks) {}

  void on_step(const soma::train::StepInfo& step) override {
    soma::Record line("line");
    line.set("step", step.step);
    line.set("loss", step.loss);
    line.set("grad_norm", step.gradient_norm);
    line.set("learning_rate", step.learning_rate);
    line.set("tokens", step.tokens);
    line.set("seconds", step.seconds);
    write(line);
  }
  void on_evaluation(const soma::train::EvaluationInfo& info) override {
    soma::Record line("line");
    line.set("event", "evaluation");
    line.set("step", info.step);
    line.set("loss", info.loss);
    set_values(line, *info.values);
    line.set("seconds", info.seconds);
    write(line);
  }
  void tested(const soma::train::Evaluation& evaluation) {
    soma::Record line("line");
    line.set("event", "test");
    line.set("loss", evaluation.loss);
    set_values(line, evaluation.values);
    line.set("seconds", evaluation.seconds);
    write(line);
  }
  void done(const soma::train::Report& report, std::string_view weights_hash) {
    soma::Record line("line");
    line.set("event", "done");
    set_values(line, report.values);
    line.set("train_seconds", report.train_seconds);
    line.set("peak_rss_bytes", report.peak_resident_bytes);
    line.set("weights_hash", weights_hash);
    line.set("steps", report.steps);
    line.set("interrupted", report.interrupted);
    write(line);
  }

 private:
  // A value that is not defined has no place in a line.
  static void set_values(soma::Record& line, const soma::metrics::Values& values) {
    for (const soma::metrics::Value& value : values)
      if (!std::isnan(value.value)) line.set(value.name, value.value);
  }
  void write(soma::Record& line) {
    if (ranks_ > 1) line.set("rank", static_cast<std::uint64_t>(rank_));
    file_.write(line);
  }

  soma::JsonLines file_;
  int rank_, ranks_;
};

class TensorBoardLog final : public soma::train::Callback {
 public:
  // With what the device does, where there is one, which outlives the log.
  explicit TensorBoardLog(const std::string& folder, const soma::NeuronCoreDevice* device = nullptr)
      : file_(folder) {
    if (device != nullptr) device_.emplace(*device);
  }

  // Points that an earlier run in that folder wrote after its last checkpoint are written again.
  void on_start(const soma::train::RunInfo& run) override {
    file_.start(static_cast<std::int64_t>(run.first_step) + 1);
  }
  void on_step(const soma::train::StepInfo& step) override {
    const auto at = static_cast<std::int64_t>(step.step);
    file_.scalar("train/loss", at, step.loss);
    file_.scalar("train/gradient_norm", at, step.gradient_norm);
    file_.scalar("train/learning_rate", at, step.learning_rate);
    if (step.classified != 0)
      file_.scalar("train/accuracy", at,
                   static_cast<double>(step.correct) / static_cast<double>(step.classified));
    if (step.seconds > 0) {
      file_.scalar("speed/tokens_per_second", at, static_cast<double>(step.tokens) / step.seconds);
      file_.scalar("speed/useful_gflops", at, step.useful_flops * 1e-9 / step.seconds);
    }
    file_.scalar("memory/peak_resident_bytes", at,
                 static_cast<double>(soma::peak_resident_bytes()));
    if (device_)
      device_->write([&](const std::string& name, double value) { file_.scalar(name, at, value); });
  }
  void on_evaluation(const soma::train::EvaluationInfo& info) override {
    const auto at = static_cast<std::int64_t>(info.step);
    file_.scalar("held_out/loss", at, info.loss);
    for (const soma::metrics::Value& value : *info.values)
      if (!std::isnan(value.value)) file_.scalar("held_out/" + value.name, at, value.value);
    if (device_) device_->skip();
  }

 private:
  soma::EventFile file_;
  std::optional<soma::DeviceScalars> device_;
};
