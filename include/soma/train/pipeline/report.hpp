#pragma once
// The member of PipelineGradients that reports: a line for each stage, with predicted and measured
// numbers.

#include <soma/base/fixed.hpp>
#include <soma/train/events.hpp>
#include <soma/train/pipeline/gradients.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::train {

// The report of one stage. Times are 0 if nothing was measured before the run.
struct StageReport {
  double parameters = 0;             // numbers of it
  double predicted_activations = 0;  // bytes of the micro-batches in flight
  double measured_activations = 0;   // the measured maximum of the same bytes
  double gradients = 0;              // bytes, with the sums of micro-batches that wait
  double heap = 0;                   // bytes of the context at most, whatever for
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/pipeline/impl/report.ipp>
#endif
