// Options for several ranks: how they share a batch, or how they share a model.
#pragma once

#include "training/run_options.hpp"

void add_ranks(CLI::App& command, RankOptions& options);
