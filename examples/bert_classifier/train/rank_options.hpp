// Options of several ranks: how ranks share a batch, or how they share a model.
#pragma once

#include "bert_classifier/train/options.hpp"

void add_ranks(CLI::App& command, RankOptions& options);
