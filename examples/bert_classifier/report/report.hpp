// The files of --plot and --report: the curves of a run, and a page with its results.
#pragma once

#include "bert_classifier/train/options.hpp"

#include <soma/curves.hpp>
#include <soma/models/prediction.hpp>
#include <soma/text/labelled_text.hpp>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// Asks a model for its answers to texts and, for pairs, their second texts.
using AskModel = std::function<std::vector<soma::models::Prediction>(
    std::span<const std::string_view> texts, std::span<const std::string_view> pairs)>;

// The contents of a page, besides the options.
struct ReportParts {
  const soma::train::Report& run;
  const std::optional<soma::train::Evaluation>& tested;
  std::string picture;
  const std::vector<std::string>& labels;
  std::span<const soma::text::LabelledRow> held_out;
  soma::data::LabelKind kind;
  AskModel ask;
};

// The title of the curves of a run.
std::string curves_title(const TrainOptions& options);
// Writes the page of --report; asks the model about each validation text. Error file.write.
void write_report(const TrainOptions& options, const ReportParts& parts);
