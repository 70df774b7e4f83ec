// --class-weights: how much each class counts in the loss.
#pragma once

#include "bert_classifier/train/options.hpp"
#include "bert_classifier/train/rows.hpp"

#include <vector>

// One for each class; empty: all count the same. Errors UsageError, and file.read.
std::vector<float> class_weights(const TrainOptions& options, const TrainingRows& rows);
