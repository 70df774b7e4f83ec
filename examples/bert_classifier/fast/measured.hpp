// A model of the fast kind on rows with known labels: its metrics, its loss, the time of a text.
#pragma once

#include "bert_classifier/fast/fast.hpp"

#include <soma/metrics/classification.hpp>
#include <soma/metrics/multi_label.hpp>
#include <soma/models/fast_classifier.hpp>
#include <soma/text/labelled_text.hpp>

#include <cstdint>
#include <string>
#include <vector>

struct FastMeasured {
  soma::metrics::Classification metrics;  // for one label a text
  soma::metrics::MultiLabel several;      // for several
  soma::data::LabelKind kind;
  double loss = 0, seconds = 0;
  std::vector<std::int64_t> times;  // nanoseconds of each text, ascending

  // Takes each text the way that serve and predict take. The loss of several labels is the mean
  // over texts and labels. Error runtime.stopped.
  FastMeasured(soma::Context& context, const soma::models::FastClassifier& model,
               const std::vector<soma::text::LabelledRow>& rows);
  // The most seconds that a share of the texts took.
  double percentile(double share) const;
  // One line of metrics, with what is printed before it.
  void print(const std::vector<std::string>& labels) const;
};
