// evaluate, predict and describe.

#include "bert_classifier/arguments.hpp"
#include "bert_classifier/commands.hpp"
#include "bert_classifier/compute.hpp"
#include "bert_classifier/fast/fast.hpp"
#include "bert_classifier/predict_lines.hpp"
#include "bert_classifier/results.hpp"
#include "bert_classifier/train/outputs.hpp"
#include "bert_classifier/train/rows.hpp"
#include "bert_classifier/trained_model.hpp"

#include <soma/base/fixed.hpp>
#include <soma/io/precision_json.hpp>
#include <soma/io/record_json.hpp>
#include <soma/models/fast_classifier.hpp>
#include <soma/models/text_classifier.hpp>
#include <soma/runtime/host.hpp>
#include <soma/soma.hpp>
#include <soma/sparse.hpp>
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
int print_values(const soma::train::Evaluation& result, bool json) {
  if (json) {
    soma::Record record("evaluation");
    record.set("rows", result.sequences);
    for (const soma::metrics::Value& value : result.values) record.set(value.name, value.value);
    record.set("loss", result.loss);
    record.set("seconds", result.seconds);
    std::cout << soma::to_json(record) << '\n';
    return 0;
  }
  using soma::fixed;
  for (const soma::metrics::Value& value : result.values)
    std::cout << value.title << '\t' << fixed(value.value, 4) << '\n';
  std::cout << "loss\t" << fixed(result.loss, 4) << "\nrows\t" << result.sequences << '\n';
  return 0;
}

bool has_text(std::string_view line) { return line.find_first_not_of(" \t\r\n\f\v") != line.npos; }

}  // namespace

int evaluate(const EvaluateOptions& options) {
  if (soma::models::is_fast_classifier(options.model)) return evaluate_fast(options);
  try_outputs(options);
  Compute compute(options.compute);
  soma::Context& context = compute.context();
  TextClassifier model = TextClassifier::from_pretrained(context, options.model);
  check_trained(model, options.model, "evaluate");
  const bool has_classes = model.classes() != 0;
  if (!options.confusion.empty() && !has_classes)
    throw UsageError("--confusion needs a model that gives a text one class");
  std::vector<soma::text::SkippedRows> skipped;
  soma::text::RowOptions row_settings = row_options(options.data, model.input());
  row_settings.labels = model.kind();
  const std::vector<soma::text::LabelledRow> rows =
      soma::text::read_rows(soma::text::find_test_files(options.data.data, "evaluate"),
                            model.labels(), row_settings, skipped, "evaluate");
  report_skipped(skipped);
  check_pairs(rows, options.data.data, model.input());
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
  if (!has_classes) return print_values(result, options.json);
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

// Predicts the lines of a file: ask(texts, pairs) returns a prediction for each text.
template <class Ask>
int answer_lines(const Ask& ask, soma::data::LabelKind kind, const PredictOptions& options) {
  LineReader input(options.file);
  std::ios::sync_with_stdio(false);
  std::vector<std::string> lines;
  std::uint64_t answered = 0;
  const auto answer = [&] {
    std::vector<std::string_view> texts, pairs;
    for (const std::string& line : lines) {
      if (!has_text(line)) continue;
      texts.push_back(line);
      if (!options.pairs) continue;
      const std::size_t tab = line.find('\t');
      if (tab == line.npos || line.find('\t', tab + 1) != line.npos)
        soma::fail(soma::error_id::text_row_columns, "predict",
                   "line " + std::to_string(answered +
                                            static_cast<std::uint64_t>(&line - lines.data()) + 1),
                   "not two texts", "a text, a tab and a text: the model reads pairs");
      pairs.push_back(texts.back().substr(tab + 1));
      texts.back() = texts.back().substr(0, tab);
    }
    const std::vector<soma::models::Prediction> predictions = ask(texts, pairs);
    auto next = predictions.begin();
    for (const std::string& line : lines) {
      if (has_text(line))
        std::cout << *next++ << '\n';
      else if (kind == soma::data::LabelKind::one)
        std::cout << soma::models::Prediction{} << '\n';  // no class, with probability 0
      else
        std::cout << '\n';
    }
    std::cout << std::flush;
    answered += lines.size();
    lines.clear();
  };
  const auto stopped = [] { return stop_requested.requested(); };
  for (std::string line; std::cout && input.next(line, stopped);) {
    lines.push_back(std::move(line));
    // Lines that a user types are answered at once.
    if (lines.size() >= options.batch_size || input.must_wait()) answer();
  }
  if (!lines.empty()) answer();
  if (stopped())
    throw Interrupted("predict: ended by a signal, after " + std::to_string(answered) + " lines");
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
    return answer_lines([&](Texts texts, Texts) { return model.predict(texts); },
                        soma::data::LabelKind::one, options);
  }
  const TextClassifier model = TextClassifier::from_pretrained(context, options.model);
  check_trained(model, options.model, "predict");
  PredictOptions asked = options;
  if (options.pairs && model.input().pairs == false)
    throw UsageError("--pairs: " + soma::quoted(options.model) + " was trained on single texts");
  asked.pairs = options.pairs || model.input().pairs == true;
  return answer_lines(
      [&](Texts texts, Texts pairs) { return model.predict(texts, soma::DType::fp32, pairs); },
      model.kind(), asked);
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
