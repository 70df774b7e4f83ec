// --report: where the time of a run goes, which rows the run touches, which classes an index would
// find, and what needs how much memory.
#pragma once

#include "extreme_classifier/options.hpp"

#include <soma/ops/profiler.hpp>
#include <soma/train/events.hpp>

#include <cstdint>
#include <ostream>

class RunReport final : public soma::train::Callback {
 public:
  RunReport(soma::Context& context, const soma::models::ExtremeClassifier& model)
      : model_(model), profiler_(context) {}

  void on_step(const soma::train::StepInfo& step) override {
    ++steps_;
    reading_ += step.wait_seconds;
    for (const soma::Parameter& parameter : model_.parameters())
      if (parameter.name == "classes.weight") {
        const soma::Gradient gradient = parameter.gradient();
        touched_ += gradient.sparse() ? gradient.rows.elements() : model_.options().classes;
      }
  }
  void on_end(const soma::train::Report&) override {
    seconds_ = profiler_.seconds_so_far();
    rows_ = profiler_.rows();
  }
  void print(std::ostream& out) const;

 private:
  const soma::models::ExtremeClassifier& model_;
  soma::Profiler profiler_;
  std::vector<soma::ProfileRow> rows_{};
  double seconds_ = 0, reading_ = 0;
  std::uint64_t steps_ = 0, touched_ = 0;
};

// Prints the recall of an index with the sampler's settings: the share of the truly likeliest 1, 10
// and 100 classes that lie in the buckets, over up to 200 points.
void print_recall(std::ostream& out, soma::Context& context,
                  const soma::models::ExtremeClassifier& model,
                  const soma::data::SparsePoints& points);
