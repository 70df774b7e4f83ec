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

// Prints the rows for one process and, with more ranks, for these.
void print_plan(const PlanSettings& settings, const RunOptions& options, const PlanRows& rows);
