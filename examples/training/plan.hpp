// The table of a plan: layouts of a training on ranks, computed and printed.
#pragma once

#include "training/run_options.hpp"

#include <soma/pipeline.hpp>
#include <soma/soma.hpp>

#include <cstddef>
#include <functional>
#include <vector>

// Computes the rows for so many ranks, each with so many threads, and adds them to the others.
using PlanRows = std::function<soma::train::PlanTable(std::size_t ranks, int threads,
                                                      std::vector<soma::train::PlanRow> others)>;

// The table of a training with these settings and the optimizer of the options. `held_out`: what
// evaluations read, or nullptr.
soma::train::PlanTable plan_table(soma::Context& context, soma::nn::Task& task,
                                  soma::data::BatchSource& source,
                                  soma::data::BatchSource* held_out,
                                  soma::train::TrainerOptions settings, const RunOptions& options,
                                  std::size_t ranks, std::vector<soma::train::PlanRow> others);

// Prints the rows for one process and, with more ranks, for these.
void print_plan(const PlanSettings& settings, const RunOptions& options, const PlanRows& rows);
