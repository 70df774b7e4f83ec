// evaluate, predict and describe.

#include "bert_classifier/commands.hpp"
#include "bert_classifier/fast/fast.hpp"
#include "bert_classifier/results.hpp"
#include "bert_classifier/train/outputs.hpp"
#include "bert_classifier/train/rows.hpp"
#include "training/arguments.hpp"
#include "training/compute.hpp"

#include <soma/base/fixed.hpp>
#include <soma/io/precision_json.hpp>
#include <soma/io/record_json.hpp>
#include <soma/models/fast_classifier.hpp>
#include <soma/models/predictor.hpp>
#include <soma/models/text_classifier.hpp>
#include <soma/runtime/host.hpp>
#include <soma/soma.hpp>
#include <soma/sparse.hpp>
#include <soma/text/text_lines.hpp>
#include <soma/train/evaluate.hpp>
#include <soma/train/stoppable_source.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace {

using soma::models::TextClassifier;

// Prints the metrics of a model whose output is a number or several labels per text.
int print_evaluation(const soma::train::Evaluation& result, bool json) {
  if (!json) {
    print_values(result.values, result.sequences, result.loss);
    return 0;
  }
  soma::Record more;
  more.set("seconds", result.seconds);
  print_json(result.values, result.sequences, result.loss, more);
  return 0;
}

}  // namespace

int evaluate(const EvaluateOptions& options) {
  if (soma::models::is_fast_classifier(options.model)) return evaluate_fast(options);
  try_outputs(options);
  Compute compute(options.compute);
  soma::Context& context = compute.context();
  soma::models::Predictor predictor(context, options.model);
  TextClassifier& model = predictor.classifier();
  const bool has_classes = model.classes() != 0;
  if (!options.confusion.empty() && !has_classes)
    throw UsageError("--confusion needs a model that gives a text one class");
  soma::text::RowOptions row_settings = row_options(options.data, model.input());
  row_settings.labels = model.kind();
  const std::vector<soma::text::LabelledRow> rows =
      measured_rows(options, model.labels(), row_settings);
  check_pairs(rows, options.files.front(), model.input());
  const auto batches = model.batches(
      rows, {.batch_sequences = options.batch_size, .shuffle = false}, &stop_requested);
  using soma::train::StoppableSource;
  soma::train::Ranks alone;
  StoppableSource source(*batches, &stop_requested, alone, StoppableSource::When::between_batches);
  const soma::train::Evaluation result = soma::train::evaluate(context, model, source);
  if (source.cut()) throw Interrupted("evaluate: ended by a signal");
  const soma::metrics::Classification& metrics = result.metrics;
  if (!std::isfinite(result.loss))
    soma::fail(soma::error_id::model_not_finite, "evaluate",
               "loss of " + soma::quoted(options.model), std::to_string(result.loss),
               "a finite number: broken weights?");

  write_confusion("evaluate", options.confusion, model.labels(), metrics);
  if (!has_classes) return print_evaluation(result, options.json);
  if (options.json) {
    soma::Record more;
    more.set("seconds", result.seconds);
    print_json(metrics, result.loss, more);
    return 0;
  }
  print_summary(metrics, model.labels(), result.loss);
  print_classes(metrics, model.labels());
  return 0;
}

namespace {

using Texts = std::span<const std::string_view>;

// Predicts the lines of files: ask(texts, pairs) returns a prediction for each text.
template <class Ask>
class Answering {
 public:
  Answering(const Ask& ask, const PredictOptions& options) : ask_(ask), options_(options) {
    std::ios::sync_with_stdio(false);
  }

  // Answers the lines of a file; lines before one that cannot be read have their answers.
  void read(const std::string& file) {
    soma::text::RowOptions reading;
    reading.stop = &stop_requested;
    try {
      soma::text::TextLines input(file, "predict", reading);
      for (std::string line; std::cout && input.next(line);) {
        add(input, std::move(line));
        // Lines that a user types are answered at once.
        if (texts_.size() >= options_.batch_size || input.must_wait()) answer();
      }
    } catch (const soma::Error& error) {
      if (error.id() == soma::error_id::stopped) {
        answer();
        throw Interrupted("predict: ended by a signal, after " + std::to_string(answered_) +
                          " lines");
      }
      answer();
      throw;
    }
    answer();
  }

 private:
  void add(const soma::text::TextLines& input, std::string line) {
    if (!options_.pairs) return texts_.push_back(std::move(line));
    const std::size_t tab = line.find('\t');
    if (!soma::text::is_blank(line) && (tab == line.npos || line.find('\t', tab + 1) != line.npos))
      soma::fail(soma::error_id::text_row_columns, "predict", input.place(), "not two texts",
                 "a text, a tab and a text (--pairs)");
    pairs_.push_back(tab == line.npos ? std::string() : line.substr(tab + 1));
    texts_.push_back(line.substr(0, tab));
  }
  void answer() {
    const auto views = [](const std::vector<std::string>& texts) {
      return std::vector<std::string_view>(texts.begin(), texts.end());
    };
    for (const soma::models::Prediction& prediction : ask_(views(texts_), views(pairs_)))
      std::cout << prediction << '\n';
    std::cout << std::flush;
    answered_ += texts_.size();
    texts_.clear();
    pairs_.clear();
  }

  const Ask& ask_;
  const PredictOptions& options_;
  std::vector<std::string> texts_, pairs_;
  std::uint64_t answered_ = 0;
};

template <class Ask>
int answer_files(const Ask& ask, const PredictOptions& options) {
  Answering answering(ask, options);
  for (const std::string& file : options.files) answering.read(file);
  return 0;
}

}  // namespace

int predict(const PredictOptions& options) {
  Compute compute(options.compute);
  soma::Context& context = compute.context();
  if (soma::models::is_fast_classifier(options.model)) {
    if (options.pairs) throw UsageError("--pairs: a model of the fast kind reads one text");
    soma::add_sparse(context);
    const auto model = soma::models::FastClassifier::from_folder(context, options.model);
    return answer_files([&](Texts texts, Texts) { return model.predict(texts); }, options);
  }
  const soma::models::Predictor predictor(context, options.model);
  const TextClassifier& model = predictor.classifier();
  PredictOptions asked = options;
  if (options.pairs && model.input().pairs == false)
    throw UsageError("--pairs: " + soma::quoted(options.model) + " was trained on single texts");
  asked.pairs = options.pairs || model.input().pairs == true;
  return answer_files([&](Texts texts, Texts pairs) { return predictor.predict(texts, pairs); },
                      asked);
}

int describe(const DescribeOptions& options) {
  if (!options.precision.empty()) {
    std::cout << to_json(soma::find_precision(options.precision)) << '\n';
    return 0;
  }
  Compute compute(options.compute);
  soma::Context& context = compute.context();
  std::cout << to_string(describe_host(context));
  std::cout << "formats          ";
  for (const soma::NamedFormat& format : soma::named_formats) std::cout << ' ' << format.name;
  std::cout << "\nprecisions       ";
  for (const soma::Precision& preset : soma::precision_presets()) std::cout << ' ' << preset.name;
  std::cout << "\nversion           " << soma::version.major << '.' << soma::version.minor << '.'
            << soma::version.patch << '\n';
  return 0;
}
