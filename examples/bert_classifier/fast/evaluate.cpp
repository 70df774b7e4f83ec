// evaluate for a model of the fast kind: each text takes the same path as in serve and predict, and
// its time is measured.

#include "bert_classifier/commands.hpp"
#include "bert_classifier/fast/measured.hpp"
#include "bert_classifier/results.hpp"
#include "bert_classifier/train/outputs.hpp"
#include "bert_classifier/train/rows.hpp"
#include "training/arguments.hpp"
#include "training/compute.hpp"

#include <soma/base/fixed.hpp>
#include <soma/sparse.hpp>

#include <iostream>

namespace {

FastMeasured measured(soma::Context& context, const soma::models::FastClassifier& model,
                      const std::vector<soma::text::LabelledRow>& rows) {
  try {
    return FastMeasured(context, model, rows);
  } catch (const soma::Error& error) {
    if (error.id() != soma::error_id::stopped) throw;
    throw Interrupted("evaluate: ended by a signal");
  }
}

}  // namespace

int evaluate_fast(const EvaluateOptions& options) {
  try_outputs(options);
  Compute compute(options.compute);
  soma::Context& context = compute.context();
  soma::add_sparse(context);
  const auto model = soma::models::FastClassifier::from_folder(context, options.model);
  const bool one = model.label_kind() == soma::data::LabelKind::one;
  if (!options.confusion.empty() && !one)
    throw UsageError("--confusion needs a model that gives a text one class");
  soma::text::RowOptions settings = row_options(options.data, model.options().input);
  settings.labels = model.label_kind();
  const std::vector<soma::text::LabelledRow> rows =
      measured_rows(options, model.labels(), settings);
  check_pairs(rows, options.files.front(), {.pairs = false});  // as every model of this kind
  if (rows.empty())
    soma::fail(soma::error_id::data_empty, "evaluate", "rows", "none", "at least one");
  const FastMeasured result = measured(context, model, rows);
  if (one) write_confusion("evaluate", options.confusion, model.labels(), result.metrics);
  if (options.json) {
    soma::Record more;
    more.set("seconds", result.seconds);
    more.set("text_seconds_p50", result.percentile(0.5));
    more.set("text_seconds_p99", result.percentile(0.99));
    if (one)
      print_json(result.metrics, result.loss, more);
    else
      print_json(result.several.values(), rows.size(), result.loss, more);
    return 0;
  }
  using soma::fixed;
  if (one)
    result.print(model.labels());
  else
    print_values(result.several.values(), rows.size(), result.loss);
  std::cout << "a text took " << fixed(result.percentile(0.5) * 1e6, 1) << " us (p50), "
            << fixed(result.percentile(0.99) * 1e6, 1) << " us (p99)\n";
  if (one) print_classes(result.metrics, model.labels());
  return 0;
}
