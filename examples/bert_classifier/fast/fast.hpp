// The kind of model that is trained in seconds: hashed words and pairs of words, the mean of their
// rows, one linear layer (soma/models/fast_classifier.hpp).
#pragma once

#include "bert_classifier/launch/launch.hpp"
#include "bert_classifier/train/options.hpp"

// `options` are those that were given, of ranks but 0 without outputs.
int train_fast(const TrainOptions& given, const TrainOptions& options, Launch& launch);
int evaluate_fast(const EvaluateOptions& options);
