// What the program can be told of rows: their file, their columns, their labels.
#pragma once

#include "bert_classifier/train/options.hpp"

#include <string>

inline const std::string data_group = "Data";  // as help names it

// --data and what says how its rows are read. `folder`: what a folder has to hold.
CLI::Option* add_rows(CLI::App& command, DataOptions& options, const std::string& folder);
