// train --model-kind fast --tune: settings of the linear model, measured by the rows that its fit
// holds out.

#include "bert_classifier/commands.hpp"
#include "bert_classifier/fast/fast.hpp"
#include "bert_classifier/train/rows.hpp"
#include "training/arguments.hpp"
#include "training/compute.hpp"
#include "training/launch/launch.hpp"
#include "tuning/trials.hpp"

#include <soma/models/fast_classifier.hpp>
#include <soma/sparse.hpp>
#include <soma/system/clock.hpp>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

namespace {

using soma::models::FastClassifier;
using soma::models::FastFitOptions;

std::uint64_t compact_bytes(const FastClassifier& model) {
  soma::Record record("config.json");
  soma::StateDict state;
  model.linear()->save(record, state);
  std::uint64_t bytes = 0;
  for (const auto& [name, tensor] : state) bytes += tensor.bytes();
  return bytes;
}

double median_microseconds(const FastClassifier& model, const TrainingRows& rows) {
  std::vector<std::int64_t> times;
  const std::size_t step = rows.train.size() / 200 + 1;
  for (std::size_t i = 0; i < rows.train.size(); i += step) {
    const std::int64_t start = soma::monotonic_nanoseconds();
    static_cast<void>(model.predict(rows.train[i].text));
    times.push_back(soma::monotonic_nanoseconds() - start);
  }
  std::sort(times.begin(), times.end());
  return static_cast<double>(times[times.size() / 2]) * 1e-3;
}

// The typed command line without --tune.
std::string command_of(const std::vector<std::string>& typed) {
  std::string text;
  for (std::size_t i = 0; i < typed.size(); ++i) {
    const std::string& word = typed[i];
    if (word == "--tune" || word == "--tune-passes") {
      if (i + 1 < typed.size() && !typed[i + 1].starts_with("-")) ++i;
      continue;
    }
    if (word.starts_with("--tune=") || word.starts_with("--tune-passes=")) continue;
    const bool plain = word.find_first_of(" \t'\"\\$&|;<>()*?") == word.npos && !word.empty();
    text.append(text.empty() ? "" : " ").append(plain ? word : "'" + word + "'");
  }
  return text;
}

}  // namespace

int tune_fast(const TrainOptions& options, Launch& launch, const std::vector<std::string>& typed) {
  if (!fits_linear(options, launch.size()))
    throw UsageError(
        "--tune is for a linear model, and another option, or several ranks, ask for "
        "a trainer or a checkpoint");
  Compute compute(options.compute, launch.threads());
  soma::Context& context = compute.context();
  soma::add_sparse(context);
  const TrainingRows rows = training_rows(options, launch.size());
  const soma::data::LabelKind kind = label_kind(options.data);
  const bool one = kind == soma::data::LabelKind::one;
  FastFitOptions base = fit_options(options, rows);
  if (options.tune_passes != 0) base.passes = base.bag_passes = options.tune_passes;
  std::vector<tuning::Trial> trials;
  const auto add = [&](const char* name, const std::string& words, const FastFitOptions& changed) {
    trials.push_back({name, words, [&, changed](const soma::StopFlag& stop) {
                        const auto model = FastClassifier::fit(context, rows.train, rows.labels,
                                                               changed, kind, &stop);
                        const soma::models::FastFitted& fitted = model.linear()->fitted();
                        if (fitted.held_out_rows == 0)
                          soma::fail(soma::error_id::data_empty, "train --tune", "rows held out",
                                     "none", "some hundred rows, of which a tenth is held out");
                        return tuning::Result{one ? fitted.held_out_accuracy : fitted.held_out_f1,
                                              compact_bytes(model),
                                              median_microseconds(model, rows)};
                      }});
  };
  const std::size_t classes = rows.labels.size();
  const bool bag = base.bag_width < 0 ? one && soma::models::fast_bag_width_for(classes) != 0
                                      : base.bag_width != 0;
  const char* const usual = bag ? "linear and bag" : "linear";
  add(usual, "", base);
  // Settings that were given by hand are kept.
  const auto vary = [&](bool given, const char* name, const std::string& words, auto member,
                        auto value) {
    if (given) return;
    FastFitOptions changed = base;
    changed.*member = value;
    add(name, words, changed);
  };
  const FastTrainOptions& fast = options.fast;
  if (bag)
    vary(fast.bag_width >= 0, "linear", "--bag-width 0", &FastFitOptions::bag_width, 0);
  else
    vary(fast.bag_width >= 0, "linear and bag", "--bag-width 16", &FastFitOptions::bag_width, 16);
  vary(fast.c > 0, usual, "--c 0.25", &FastFitOptions::c, 0.25);
  vary(fast.c > 0, usual, "--c 4", &FastFitOptions::c, 4);
  vary(fast.parts >= 0, usual, "--parts 0", &FastFitOptions::parts, 0);
  vary(fast.parts >= 0, usual, "--parts 6", &FastFitOptions::parts, 6);
  vary(fast.ngrams >= 0, usual, "--ngrams 1", &FastFitOptions::ngrams, 1u);
  vary(fast.ngrams >= 0, usual, "--ngrams 3", &FastFitOptions::ngrams, 3u);
  vary(fast.strength >= 0, usual, "--strength 0", &FastFitOptions::strength, 0);
  if (bag) vary(fast.bag_width >= 0, usual, "--bag-width 128", &FastFitOptions::bag_width, 128);
  tuning::run(trials,
              {.seconds = options.tune >= 0 ? options.tune : 20, .passes = options.tune_passes},
              one ? "accuracy" : "micro F1", command_of(typed), stop_requested, std::cout);
  return 0;
}
