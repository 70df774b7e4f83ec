// The rows of a run, and its model.
#pragma once

#include "language_model/options.hpp"

#include <soma/models/language_model.hpp>
#include <soma/text/documents.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

struct TrainingRows {
  std::vector<soma::text::DocumentRow> train{}, held_out{};
};

soma::text::DocumentOptions document_options(const TextOptions& options);

// Errors of read_documents; UsageError: a share that leaves no row.
TrainingRows training_rows(const TrainOptions& options);

soma::models::TrainedTokens trained_tokens(const std::string& name);

// The model of a training, with its adapters. `later`: LanguageModelOptions::later.
soma::models::LanguageModel training_model(soma::Context& context, const TrainOptions& options,
                                           soma::nn::InitialStore* later);
// The type of that name; empty: not set.
std::optional<soma::DType> weights_type(const std::string& name);
