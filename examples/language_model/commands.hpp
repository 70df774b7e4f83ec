// The commands. Each returns the program's exit code, and throws its errors.
#pragma once

#include "language_model/options.hpp"
#include "training/stop.hpp"

#include <string>
#include <vector>

class Launch;

// `command` is the typed command line: program, command, options.
int train(const TrainOptions& options, Launch& launch, const std::vector<std::string>& command);
int plan(const PlanCommand& options, Launch& launch);
int evaluate(const EvaluateOptions& options);
int generate(const GenerateOptions& options);
int describe(const DescribeOptions& options);
int merge(const MergeOptions& options);
