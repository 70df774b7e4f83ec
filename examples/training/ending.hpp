// The end of a training: the files that remain, and the quality on the rows of a test.
#pragma once

#include "training/run_options.hpp"

#include <soma/train/evaluate.hpp>
#include <soma/train/report.hpp>

#include <cstdint>
#include <optional>

class Launch;

// The remains of a run after a stop: a checkpoint to resume from; without checkpoints the present
// model, unless it would replace a better trained one. The same on all ranks.
enum class Kept : unsigned char { nothing, checkpoint, model };
Kept what_to_keep(const RunOptions& given, const soma::train::Report& report);

// Not set if a stop has cut it short.
std::optional<soma::train::Evaluation> measure_test(soma::Context& context, soma::nn::Task& model,
                                                    soma::data::BatchSource& rows,
                                                    soma::PrecisionState& precision);
void print_test(const soma::train::Evaluation& evaluation);
// Prints the last lines and returns the exit code: 1 if a stop has lost work. `steps`: of the whole
// run, 0 if unknown.
int say_ending(const RunOptions& given, Launch& launch, const soma::train::Report& report,
               Kept kept, std::uint64_t steps);
