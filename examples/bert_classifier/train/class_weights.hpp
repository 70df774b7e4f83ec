// --class-weights: the weight of each class in the loss.
#pragma once

#include "bert_classifier/train/options.hpp"
#include "bert_classifier/train/rows.hpp"

#include <vector>

// One weight for each class; empty: all equal. Errors UsageError, and file.read.
std::vector<float> class_weights(const TrainOptions& options, const TrainingRows& rows);
