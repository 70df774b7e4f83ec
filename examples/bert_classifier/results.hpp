// The results of a model in the form that train and evaluate print, for both kinds of models.
#pragma once

#include <soma/base/record.hpp>
#include <soma/metrics/classification.hpp>

#include <cstdint>
#include <string>
#include <vector>

// Writes the counts of each pair of classes to a file, unless the path is empty. Error file.write.
void write_confusion(const char* operation, const std::string& path,
                     const std::vector<std::string>& labels,
                     const soma::metrics::Classification& metrics);

// Prints one JSON object in a line: the metrics, the loss, then the entries of `more`.
void print_json(const soma::metrics::Classification& metrics, double loss,
                const soma::Record& more);
// The same of a model that gives a text several labels or a number.
void print_json(const soma::metrics::Values& values, std::uint64_t rows, double loss,
                const soma::Record& more);
// The same as a table.
void print_values(const soma::metrics::Values& values, std::uint64_t rows, double loss);
// Prints the summary, and a table with a line for each class.
void print_summary(const soma::metrics::Classification& metrics,
                   const std::vector<std::string>& labels, double loss);
void print_classes(const soma::metrics::Classification& metrics,
                   const std::vector<std::string>& labels);
