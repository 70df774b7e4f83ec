// --class-weights: the weight of each class in the loss.
#pragma once

#include "bert_classifier/train/options.hpp"
#include "bert_classifier/train/rows.hpp"

#include <vector>

// Returns one weight for each class; empty if all classes have the same weight. Errors UsageError,
// and file.read.
std::vector<float> class_weights(const TrainOptions& options, const TrainingRows& rows);
