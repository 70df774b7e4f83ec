// The fast kind of model, which trains in seconds: hashed words and word pairs, the mean of their
// embedding rows, and one linear layer (soma/models/fast_classifier.hpp).
#pragma once

#include "bert_classifier/launch/launch.hpp"
#include "bert_classifier/train/options.hpp"

// `given` are the options of the command line; `options` are the same without outputs on ranks
// other than 0.
int train_fast(const TrainOptions& given, const TrainOptions& options, Launch& launch);
int evaluate_fast(const EvaluateOptions& options);
