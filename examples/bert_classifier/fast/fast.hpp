// The kind of model that trains in seconds (soma/models/fast_classifier.hpp): a linear model of
// counted features; or, with the options of a trainer, hashed words and pairs of words, the mean of
// their rows, one linear layer.
#pragma once

#include "bert_classifier/train/options.hpp"

#include <soma/models/fast_linear.hpp>

#include <string>
#include <vector>

class Launch;
struct TrainingRows;

// `given`: the options of the command line. `options`: the same, but without outputs on ranks other
// than 0. `typed`: the command line.
int train_fast(const TrainOptions& given, const TrainOptions& options, Launch& launch,
               const std::vector<std::string>& typed);
// True if no option asks for a trainer: then train_linear() fits rows in memory.
bool fits_linear(const TrainOptions& options, int ranks);
int train_linear(const TrainOptions& options, Launch& launch);
soma::models::FastFitOptions fit_options(const TrainOptions& options, const TrainingRows& rows);
// --tune.
int tune_fast(const TrainOptions& options, Launch& launch, const std::vector<std::string>& typed);
int evaluate_fast(const EvaluateOptions& options);
