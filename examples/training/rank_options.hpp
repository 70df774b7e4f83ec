// Options for several ranks: how they share a batch, or how they share a model.
#pragma once

#include "training/run_options.hpp"

// `memory_limit`: the help of --memory-limit.
void add_ranks(CLI::App& command, RankOptions& options, const char* memory_limit);
