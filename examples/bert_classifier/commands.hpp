// The commands. Each returns the program's exit code, and throws its errors.
#pragma once

#include "bert_classifier/train/options.hpp"

#include <soma/train/stop_flag.hpp>

#include <stdexcept>
#include <string>
#include <vector>

class Launch;

// Set by the program's signal handlers: finish accepted work, then end.
extern soma::train::StopFlag stop_requested;

// A signal has ended a command early. Exit code 1.
struct Interrupted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// `command` is the typed command line: program, command, options.
int train(const TrainOptions& options, Launch& launch, const std::vector<std::string>& command);
int plan(const PlanCommand& options, Launch& launch);
int evaluate(const EvaluateOptions& options);
int predict(const PredictOptions& options);
int embed(const EmbedOptions& options);
int serve(const ServeOptions& options);
int describe(const DescribeOptions& options);
