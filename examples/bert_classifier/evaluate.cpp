// evaluate, predict and describe.

#include "bert_classifier/commands.hpp"
#include "bert_classifier/compute.hpp"
#include "bert_classifier/fast/fast.hpp"
#include "bert_classifier/predict_lines.hpp"
#include "bert_classifier/train/outputs.hpp"
#include "bert_classifier/train/rows.hpp"
#include "bert_classifier/trained_model.hpp"

#include <soma/base/fixed.hpp>
#include <soma/io/confusion_csv.hpp>
#include <soma/io/precision_json.hpp>
#include <soma/io/record_json.hpp>
#include <soma/models/fast_classifier.hpp>
#include <soma/models/text_classifier.hpp>
#include <soma/runtime/host.hpp>
#include <soma/soma.hpp>
#include <soma/sparse.hpp>
#include <soma/train/evaluate.hpp>

#include <cstdint>
#include <iostream>

namespace {

using soma::models::TextClassifier;

// A source that a signal ends.
class StoppableSource final : public soma::data::BatchSource {
 public:
  explicit StoppableSource(soma::data::BatchSource& inner) : inner_(inner) {}

  bool next(soma::data::Batch& batch) override {
    if (stop_requested.requested()) throw Interrupted("evaluate: ended by a signal");
    return inner_.next(batch);
  }
  soma::data::Position position() const override { return inner_.position(); }
  void seek(soma::data::Position position) override { inner_.seek(position); }
  std::uint64_t batches(std::uint64_t epoch) const override { return inner_.batches(epoch); }
  std::uint64_t hash() const override { return inner_.hash(); }
  std::size_t largest_rows() const override { return inner_.largest_rows(); }
  std::size_t largest_sequences() const override { return inner_.largest_sequences(); }

 private:
  soma::data::BatchSource& inner_;
};

}  // namespace

int evaluate(const EvaluateOptions& options) {
  if (soma::models::is_fast_classifier(options.model)) return evaluate_fast(options);
  try_outputs(options);
  Compute compute(options.compute);
  soma::Context& context = compute.context();
  TextClassifier model = TextClassifier::from_pretrained(context, options.model);
  check_trained(model, options.model, "evaluate");
  std::vector<soma::text::SkippedRows> skipped;
  const std::vector<soma::text::LabelledRow> rows =
      soma::text::read_rows(soma::text::find_test_files(options.data.data, "evaluate"),
                            model.labels(), row_options(options.data), skipped, "evaluate");
  report_skipped(skipped);
  const auto batches =
      model.batches(rows, {.batch_sequences = options.batch_size, .shuffle = false});
  StoppableSource source(*batches);
  const soma::train::Evaluation result = soma::train::evaluate(context, model, source);
  const soma::metrics::Classification& metrics = result.metrics;

  if (!options.confusion.empty()) {
    soma::AtomicFile file("evaluate", options.confusion);
    file.write(soma::confusion_csv(model.labels(), metrics.confusion()));
    file.commit();
  }
  const soma::metrics::Interval interval = metrics.accuracy_interval();
  if (options.json) {
    soma::Record record("evaluation");
    record.set("rows", metrics.cases());
    record.set("accuracy", metrics.accuracy());
    record.set("accuracy_low", interval.low);
    record.set("accuracy_high", interval.high);
    record.set("macro_f1", metrics.macro_f1());
    if (metrics.classes() == 2) record.set("auc", metrics.area_under_curve());
    record.set("loss", result.loss);
    record.set("seconds", result.seconds);
    std::cout << soma::to_json(record) << '\n';
    return 0;
  }
  using soma::detail::fixed;
  std::cout << "accuracy " << fixed(metrics.accuracy(), 4) << " (95 %: " << fixed(interval.low, 4)
            << " to " << fixed(interval.high, 4) << "), macro F1 " << fixed(metrics.macro_f1(), 4);
  if (metrics.classes() == 2) std::cout << ", AUC " << fixed(metrics.area_under_curve(), 4);
  std::cout << ", loss " << fixed(result.loss, 4) << ", " << metrics.cases() << " rows\n";
  std::cout << "class\tprecision\trecall\tF1\n";
  for (std::size_t i = 0; i < metrics.classes(); ++i)
    std::cout << model.labels()[i] << '\t' << fixed(metrics.precision(i), 4) << '\t'
              << fixed(metrics.recall(i), 4) << '\t' << fixed(metrics.f1(i), 4) << '\n';
  return 0;
}

namespace {

template <class Model>
int answer_lines(const Model& model, const PredictOptions& options) {
  LineReader input(options.file);
  std::ios::sync_with_stdio(false);
  std::vector<std::string> lines;
  std::uint64_t answered = 0;
  const auto answer = [&] {
    const std::vector<std::string_view> texts(lines.begin(), lines.end());
    for (const soma::models::Prediction& prediction : model.predict(texts))
      std::cout << prediction << '\n';
    std::cout << std::flush;
    answered += lines.size();
    lines.clear();
  };
  const auto stopped = [] { return stop_requested.requested(); };
  for (std::string line; std::cout && input.next(line, stopped);) {
    lines.push_back(std::move(line));
    // Lines that somebody types are answered at once.
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
    soma::add_sparse(context);
    return answer_lines(soma::models::FastClassifier::from_folder(context, options.model), options);
  }
  const TextClassifier model = TextClassifier::from_pretrained(context, options.model);
  check_trained(model, options.model, "predict");
  return answer_lines(model, options);
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
