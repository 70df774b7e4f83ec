#pragma once
// Evaluation: the results of a pass over a source without training.

#include <soma/metrics/classification.hpp>
#include <soma/metrics/metrics.hpp>

#include <cstdint>
#include <string_view>

namespace SOMA_NAMESPACE::train {

struct Evaluation {
  double loss = 0;                    // mean, as the task counts (Task::loss_count)
  metrics::Values values{};           // values of the task's metrics
  metrics::Classification metrics{};  // for tasks with classes
  std::uint64_t sequences = 0;
  double seconds = 0;
};

// The value of an evaluation that is compared: "loss", or a metric's name.
struct Comparison {
  double value = 0;
  bool higher_is_better = false;

  // The value with a sign that makes more better.
  double score() const { return higher_is_better ? value : -value; }
};

}  // namespace SOMA_NAMESPACE::train
