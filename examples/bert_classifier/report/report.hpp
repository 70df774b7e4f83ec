// The files of --plot and --report: the curves of a run, and a page with its results.
#pragma once

#include "bert_classifier/train/options.hpp"

#include <soma/curves.hpp>
#include <soma/models/prediction.hpp>
#include <soma/text/labelled_text.hpp>

#include <functional>
#include <iostream>
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

soma::train::RunCurvesOptions curves_options(const TrainOptions& options);
// The picture of a run that has ended; empty if none was requested, or if a full disk has ended it
// (train/logs.hpp). Prints a line on standard error if it lacks steps of an earlier call.
template <class ExpendableCurves>
std::string end_curves(std::optional<ExpendableCurves>& curves, const TrainOptions& options) {
  std::string picture;
  if (!curves) return picture;
  curves->write([&](const soma::train::RunCurves& known) {
    picture = known.svg();
    if (known.beginning() != 0 && !options.quiet)
      std::cerr << "the curves begin after step " << known.beginning()
                << ": no file has the curves of earlier steps\n";
  });
  return picture;
}
// Writes the page of --report; asks the model about each validation text. Error file.write.
void write_report(const TrainOptions& options, const ReportParts& parts);
