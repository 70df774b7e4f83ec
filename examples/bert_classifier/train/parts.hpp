// The parts of a training of a BERT by the command line: model, batches, options.
#pragma once

#include "bert_classifier/train/options.hpp"
#include "bert_classifier/train/rows.hpp"
#include "training/trainer_options.hpp"

#include <soma/data/token_source.hpp>
#include <soma/models/text_classifier.hpp>
#include <soma/nn/later.hpp>
#include <soma/train/options.hpp>

#include <memory>

class Launch;

// `later`: makes the initial weights on demand; nullptr: they are made at once.
std::unique_ptr<soma::models::TextClassifier> make_model(soma::Context& context,
                                                         const TrainOptions& options,
                                                         const TrainingRows& rows,
                                                         soma::nn::Later* later);

std::unique_ptr<soma::data::BatchSource> make_source(soma::Context& context,
                                                     const soma::models::TextClassifier& model,
                                                     const TrainingRows& rows,
                                                     const soma::data::BatchOptions& batching);

soma::train::TrainerOptions trainer_options(const TrainOptions& options, Launch& launch);
