// Options for rows: their file, their columns, their labels.
#pragma once

#include "bert_classifier/train/options.hpp"

#include <string>

inline const std::string data_group = "Data";  // the heading in the help text

// Adds --data and the options for reading its rows. `folder`: describes the content of a folder.
CLI::Option* add_rows(CLI::App& command, DataOptions& options, const std::string& folder);
