// The results of a model as train and evaluate print them, for both kinds of models.
#pragma once

#include <soma/autograd/parameter.hpp>
#include <soma/base/record.hpp>
#include <soma/metrics/classification.hpp>

#include <string>
#include <vector>

// Writes the confusion matrix to a file; does nothing for an empty path. Error file.write.
void write_confusion(const char* operation, const std::string& path,
                     const std::vector<std::string>& labels,
                     const soma::metrics::Classification& metrics);

// The hash of all weights in 16 hexadecimal digits.
std::string weights_hash(soma::TensorSource& weights);
std::string weights_hash(const soma::Parameters& parameters);

// Prints one JSON object on a line: the counts, the loss, then the members of `more`.
void print_json(const soma::metrics::Classification& metrics, double loss,
                const soma::Record& more);
// Prints the summary, and a table with a line for each class.
void print_summary(const soma::metrics::Classification& metrics,
                   const std::vector<std::string>& labels, double loss);
void print_classes(const soma::metrics::Classification& metrics,
                   const std::vector<std::string>& labels);
