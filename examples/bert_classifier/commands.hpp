// The commands. Each returns the program's exit code; what goes wrong is thrown.
#pragma once

#include "options.hpp"

#include <soma/train/stop_flag.hpp>

// Set by the program's signal handlers: finish what is accepted, and end.
extern soma::train::StopFlag stop_requested;

int train(const TrainOptions& options);
int evaluate(const EvaluateOptions& options);
int predict(const PredictOptions& options);
int serve(const ServeOptions& options);
int describe(const DescribeOptions& options);
