#include "bert_classifier/report/report.hpp"

#include "bert_classifier/commands.hpp"

#include <soma/base/fixed.hpp>
#include <soma/io/atomic_file.hpp>
#include <soma/train/report.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace {

using soma::data::LabelKind;
using soma::models::Prediction;
using soma::text::LabelledRow;
using soma::train::WrongText;

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text.append(text.empty() ? "" : ", ").append(name);
  return text;
}

// Each of several labels is right or wrong by itself. The result names the wrong label with the
// highest certainty of the model.
WrongText several_wrong(const LabelledRow& row, const Prediction& answer,
                        const std::vector<std::string>& labels) {
  WrongText wrong;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const bool truth = std::ranges::binary_search(row.labels, static_cast<std::int32_t>(i));
    const auto likely = static_cast<double>(answer.probabilities[i]);
    if (truth) names.push_back(labels[i]);
    if (truth != (likely > 0.5))
      wrong.confidence = (std::max)(wrong.confidence, truth ? 1 - likely : likely);
  }
  wrong.expected = joined(names);
  wrong.predicted = joined(answer.labels);
  return wrong;
}

// A confidence of 0 marks a correct answer.
WrongText compared(const LabelledRow& row, const Prediction& answer, const ReportParts& parts) {
  WrongText wrong;
  if (parts.kind == LabelKind::several) {
    wrong = several_wrong(row, answer, parts.labels);
  } else if (parts.kind == LabelKind::number) {
    wrong.expected = soma::float_text(row.number);
    wrong.predicted = soma::float_text(answer.number);
    wrong.confidence =
        std::fabs(static_cast<double>(answer.number) - static_cast<double>(row.number));
  } else if (const std::string& label = parts.labels[static_cast<std::size_t>(row.label)];
             label != answer.label) {
    wrong.expected = label;
    wrong.predicted = answer.label;
    wrong.confidence = answer.probability;
  }
  return wrong;
}

// The wrong answers to all texts, which are computed in batches. A signal ends it.
std::vector<WrongText> wrong_texts(const ReportParts& parts) {
  constexpr std::size_t batch = 128;
  std::vector<WrongText> wrong;
  for (std::size_t begin = 0; begin < parts.held_out.size(); begin += batch) {
    if (stop_requested.requested()) return {};
    const auto rows =
        parts.held_out.subspan(begin).first((std::min)(batch, parts.held_out.size() - begin));
    std::vector<std::string_view> texts, pairs;
    for (const LabelledRow& row : rows) {
      texts.push_back(row.text);
      if (!row.pair.empty()) pairs.push_back(row.pair);
    }
    const std::vector<Prediction> answers = parts.ask(texts, pairs);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      WrongText one = compared(rows[i], answers[i], parts);
      if (!(one.confidence > 0)) continue;
      one.text = rows[i].text;
      one.pair = rows[i].pair;
      wrong.push_back(std::move(one));
    }
  }
  return wrong;
}

}  // namespace

std::string curves_title(const TrainOptions& options) {
  return options.data.data.empty() ? "made-up reviews" : options.data.data;
}

void write_report(const TrainOptions& options, const ReportParts& parts) {
  soma::train::ReportPage page{.title = curves_title(options), .picture = parts.picture};
  page.results = soma::train::report_lines(parts.run);
  if (parts.tested) {
    page.results.emplace_back("test loss", soma::fixed(parts.tested->loss, 4));
    for (const soma::metrics::Value& value : parts.tested->values)
      page.results.emplace_back("test " + value.title, soma::metrics::shown(value.value));
  }
  if (parts.run.evaluated && parts.kind == LabelKind::one) {
    page.labels = parts.labels;
    const auto counts = parts.run.metrics.confusion();
    page.confusion.assign(counts.begin(), counts.end());
    if (counts.empty()) page.confusions = parts.run.metrics.confusions();
  }
  if (parts.run.evaluated && !parts.run.interrupted) page.wrong = wrong_texts(parts);
  if (parts.kind == LabelKind::number) page.confidence_title = "error";
  soma::AtomicFile file("train", options.report);
  file.write(soma::train::report_page(page));
  file.commit();
}
