// The commands. Each returns the program's exit code; what goes wrong is thrown.
#pragma once

#include "launch.hpp"
#include "options.hpp"

#include <soma/train/stop_flag.hpp>

// Set by the program's signal handlers: finish what is accepted, and end.
extern soma::train::StopFlag stop_requested;

// `command` is what was typed: program, command, options.
int train(const TrainOptions& options, Launch& launch, const std::vector<std::string>& command);
int evaluate(const EvaluateOptions& options);
int predict(const PredictOptions& options);
int serve(const ServeOptions& options);
int describe(const DescribeOptions& options);
