// The kind of model that trains in seconds (soma/models/fast_classifier.hpp): a linear model of
// counted features; or, with the options of a trainer, hashed words and pairs of words, the mean of
// their rows, one linear layer.
#pragma once

#include "bert_classifier/train/options.hpp"

class Launch;

// `given`: the options of the command line. `options`: the same, but without outputs on ranks other
// than 0.
int train_fast(const TrainOptions& given, const TrainOptions& options, Launch& launch);
// True if no option asks for a trainer: then train_linear() fits rows in memory.
bool fits_linear(const TrainOptions& options, int ranks);
int train_linear(const TrainOptions& options, Launch& launch);
int evaluate_fast(const EvaluateOptions& options);
