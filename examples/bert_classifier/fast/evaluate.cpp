// evaluate for a model of the fast kind: each text takes the same path as in serve and predict, and
// its time is measured.

#include "bert_classifier/commands.hpp"
#include "bert_classifier/fast/fast.hpp"
#include "bert_classifier/results.hpp"
#include "bert_classifier/train/outputs.hpp"
#include "bert_classifier/train/rows.hpp"
#include "training/compute.hpp"

#include <soma/base/fixed.hpp>
#include <soma/metrics/classification.hpp>
#include <soma/models/fast_classifier.hpp>
#include <soma/sparse.hpp>
#include <soma/system/clock.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>

namespace {

// The most seconds that a share of the texts took.
double percentile(const std::vector<std::int64_t>& sorted, double share) {
  const auto last = static_cast<double>(sorted.size() - 1);
  return static_cast<double>(sorted[static_cast<std::size_t>(share * last)]) * 1e-9;
}

}  // namespace

int evaluate_fast(const EvaluateOptions& options) {
  try_outputs(options);
  Compute compute(options.compute);
  soma::Context& context = compute.context();
  soma::add_sparse(context);
  const auto model = soma::models::FastClassifier::from_folder(context, options.model);
  const std::vector<soma::text::LabelledRow> rows =
      measured_rows(options, model.labels(), row_options(options.data, model.options().input));
  check_pairs(rows, options.files.front(), {.pairs = false});  // as every model of this kind
  if (rows.empty())
    soma::fail(soma::error_id::data_empty, "evaluate", "rows", "none", "at least one");

  soma::metrics::Classification metrics(model.labels().size());
  std::vector<std::int64_t> times;
  double loss = 0, seconds = 0;
  for (const soma::text::LabelledRow& row : rows) {
    if (stop_requested.requested()) throw Interrupted("evaluate: ended by a signal");
    const std::int64_t start = soma::monotonic_nanoseconds();
    const soma::models::Prediction answer = model.predict(row.text);
    times.push_back(soma::monotonic_nanoseconds() - start);
    seconds += static_cast<double>(times.back()) * 1e-9;
    const auto label = static_cast<std::size_t>(row.label);
    // metrics.add() takes logits; probabilities rank the classes in the same order.
    metrics.add(answer.probabilities,
                soma::Tensor::scalar(context, row.label).reshape(soma::Shape{1}));
    loss -= std::log((std::max)(static_cast<double>(answer.probabilities[label]), 1e-38));
  }
  loss /= static_cast<double>(rows.size());
  std::sort(times.begin(), times.end());

  write_confusion("evaluate", options.confusion, model.labels(), metrics);
  if (options.json) {
    soma::Record more;
    more.set("seconds", seconds);
    more.set("text_seconds_p50", percentile(times, 0.5));
    more.set("text_seconds_p99", percentile(times, 0.99));
    print_json(metrics, loss, more);
    return 0;
  }
  using soma::fixed;
  print_summary(metrics, model.labels(), loss);
  std::cout << "a text took " << fixed(percentile(times, 0.5) * 1e6, 1) << " us (p50), "
            << fixed(percentile(times, 0.99) * 1e6, 1) << " us (p99)\n";
  print_classes(metrics, model.labels());
  return 0;
}
