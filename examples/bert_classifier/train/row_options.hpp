// Options for rows: their columns, their labels.
#pragma once

#include "bert_classifier/train/options.hpp"

#include <string>

inline const std::string data_group = "Data";  // the heading in the help text

// Adds the options for reading the rows of --data.
void add_rows(CLI::App& command, DataOptions& options);
