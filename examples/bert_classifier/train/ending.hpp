// The end of a training: what is kept of it, and how good it is on the rows of a test.
#pragma once

#include "bert_classifier/launch/launch.hpp"
#include "bert_classifier/train/options.hpp"

#include <soma/train/evaluate.hpp>
#include <soma/train/report.hpp>

#include <cstdint>
#include <optional>

// What is left of a run: where a stop came, the checkpoint that it goes on from; without one the
// model as it is, unless it would replace a model that has learnt more. All ranks say the same.
enum class Kept : unsigned char { nothing, checkpoint, model };
Kept what_to_keep(const TrainOptions& given, const soma::train::Report& report);

// Nothing where a stop has cut it short.
std::optional<soma::train::Evaluation> measure_test(soma::Context& context, soma::nn::Task& model,
                                                    soma::data::BatchSource& rows,
                                                    soma::PrecisionState& precision);
void print_test(const soma::train::Evaluation& evaluation);
// The last lines, and the exit code: 1 where a stop has cost something. `steps`: of the whole run,
// 0 where that is not known.
int say_ending(const TrainOptions& given, Launch& launch, const soma::train::Report& report,
               Kept kept, std::uint64_t steps);
