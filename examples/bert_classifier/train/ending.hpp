// The end of a training run: which result is kept, and its quality on the test rows.
#pragma once

#include "bert_classifier/launch/launch.hpp"
#include "bert_classifier/train/options.hpp"

#include <soma/train/evaluate.hpp>
#include <soma/train/report.hpp>

#include <cstdint>
#include <optional>

// A stopped run keeps its checkpoint to resume from. Without checkpoints it keeps the current
// model, unless the model would replace one that has learnt more. All ranks return the same value.
enum class Kept : unsigned char { nothing, checkpoint, model };
Kept what_to_keep(const TrainOptions& given, const soma::train::Report& report);

// Returns nothing if a stop request cut the evaluation short.
std::optional<soma::train::Evaluation> measure_test(soma::Context& context, soma::nn::Task& model,
                                                    soma::data::BatchSource& rows,
                                                    soma::PrecisionState& precision);
void print_test(const soma::train::Evaluation& evaluation);
// Prints the last lines and returns the exit code: 1 if a stop signal cost work. `steps`: the
// number of steps of the whole run, or 0 if unknown.
int say_ending(const TrainOptions& given, Launch& launch, const soma::train::Report& report,
               Kept kept, std::uint64_t steps);
