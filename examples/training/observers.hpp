// Observers of a run: progress on the terminal, logs, curves, a published page.
#pragma once

#include "training/compute.hpp"
#include "training/logs.hpp"
#include "training/profile.hpp"
#include "training/run_options.hpp"

#include <soma/curves.hpp>
#include <soma/train/callbacks/status_publisher.hpp>
#include <soma/train/console_progress.hpp>
#include <soma/train/report.hpp>
#include <soma/train/trainer_base.hpp>

#include <optional>
#include <string>

class Launch;

// The callbacks that the options ask for; they must outlive the run.
class Observers {
 public:
  struct Setting {
    const char* kind = "";         // on a published page
    std::string title{};           // over the curves
    std::string page{};            // the file of a page with the curves; empty: none
    bool narrow_products = false;  // products of 16 bits, for the peak of the machine
  };
  Observers(const RunOptions& options, Launch& launch, Compute& compute, const Setting& setting);

  void watch(soma::train::TrainerBase& trainer);
  // The last lines of the log. Returns the picture of the curves; empty if none was asked for, or
  // if a full disk has ended it.
  std::string end(const soma::train::Report& report,
                  const std::optional<soma::train::Evaluation>& tested, const std::string& hash);

 private:
  const RunOptions& options_;
  std::optional<soma::train::ConsoleProgress> progress_;
  std::optional<Expendable<StepProfile>> profile_;
  std::optional<Expendable<JsonLog>> json_log_;
  std::optional<Expendable<TensorBoardLog>> tensorboard_;
  std::optional<Expendable<soma::train::StatusPublisher>> published_;
  std::optional<Expendable<soma::train::RunCurves>> curves_;
};
