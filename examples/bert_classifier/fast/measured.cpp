#include "bert_classifier/fast/measured.hpp"

#include "bert_classifier/commands.hpp"
#include "bert_classifier/results.hpp"

#include <soma/base/fixed.hpp>
#include <soma/system/clock.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <utility>

namespace {

double log_of(float probability) {
  return std::log((std::max)(static_cast<double>(probability), 1e-38));
}

}  // namespace

FastMeasured::FastMeasured(soma::Context& context, const soma::models::FastClassifier& model,
                           const std::vector<soma::text::LabelledRow>& rows)
    : metrics(model.labels().size()), several(model.labels()), kind(model.label_kind()) {
  std::vector<std::uint8_t> truth(model.labels().size());
  std::vector<float> scores(truth.size());
  for (const soma::text::LabelledRow& row : rows) {
    soma::check_stop(&stop_requested, "evaluate");
    const std::int64_t start = soma::monotonic_nanoseconds();
    const soma::models::Prediction answer = model.predict(row.text);
    times.push_back(soma::monotonic_nanoseconds() - start);
    seconds += static_cast<double>(times.back()) * 1e-9;
    const std::vector<float>& p = answer.probabilities;
    if (kind == soma::data::LabelKind::one) {
      // metrics.add() takes logits; probabilities rank the classes in the same order.
      metrics.add(p, soma::Tensor::scalar(context, row.label).reshape(soma::Shape{1}));
      loss -= log_of(p[static_cast<std::size_t>(row.label)]);
      continue;
    }
    std::fill(truth.begin(), truth.end(), std::uint8_t{0});
    for (const std::int32_t label : row.labels) truth[static_cast<std::size_t>(label)] = 1;
    double sum = 0;
    for (std::size_t c = 0; c < scores.size(); ++c) {
      scores[c] = p.empty() ? -1 : p[c] - 0.5f;
      const float wrong = p.empty() ? 0 : p[c];
      sum -= log_of(truth[c] != 0 ? wrong : 1 - wrong);
    }
    loss += sum / static_cast<double>(scores.size());
    several.add(scores, soma::Tensor::from(context, std::span<const std::uint8_t>(truth),
                                           soma::Shape{truth.size()}));
  }
  if (!rows.empty()) loss /= static_cast<double>(rows.size());
  std::sort(times.begin(), times.end());
}

double FastMeasured::percentile(double share) const {
  const auto last = static_cast<double>(times.size() - 1);
  return static_cast<double>(times[static_cast<std::size_t>(share * last)]) * 1e-9;
}

void FastMeasured::print(const std::vector<std::string>& labels) const {
  if (kind == soma::data::LabelKind::one) return print_summary(metrics, labels, loss);
  std::cout << "micro F1 " << soma::metrics::shown(several.micro_f1()) << ", macro F1 "
            << soma::metrics::shown(several.macro_f1()) << ", loss " << soma::fixed(loss, 4) << ", "
            << times.size() << " rows\n";
}
