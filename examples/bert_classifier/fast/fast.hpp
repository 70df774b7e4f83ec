// The kind of model that trains in seconds: hashed words and pairs of words, the mean of their
// rows, one linear layer (soma/models/fast_classifier.hpp).
#pragma once

#include "bert_classifier/train/options.hpp"

class Launch;

// `given`: the options of the command line. `options`: the same, but without outputs on ranks other
// than 0.
int train_fast(const TrainOptions& given, const TrainOptions& options, Launch& launch);
int evaluate_fast(const EvaluateOptions& options);
