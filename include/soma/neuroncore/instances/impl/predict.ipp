#pragma once
// The functions of predict.hpp.

#include <soma/neuroncore/instances/predict.hpp>

#include <soma/neuroncore/instances/collectives.hpp>
#include <soma/neuroncore/instances/instance.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE double StepPrediction::steps_per_second() const {
  return seconds() > 0 ? 1 / seconds() : 0;
}

SOMA_INLINE StepPrediction predict_step(const CoreStep& step, std::size_t ranks,
                                        const Instance& instance, double bucket_bytes) {
  if (!(bucket_bytes > 0))
    fail(error_id::neuroncore_instance, "predict_step", "bucket_bytes",
         std::to_string(bucket_bytes), "more than 0");
  StepPrediction result{.core_seconds = step.ns * 1e-9};
  double bytes = 0, ready = 0, arrived = 0;
  const auto send = [&] {
    const double seconds = collective_seconds(Collective::all_reduce, bytes, ranks, instance);
    arrived = (std::max)(arrived, ready * 1e-9) + seconds;
    result.reduce_seconds += seconds;
    ++result.buckets;
    bytes = 0;
  };
  for (const GradientReady& gradient : step.gradients) {
    bytes += gradient.bytes;
    ready = (std::max)(ready, gradient.ns);
    if (bytes >= bucket_bytes) send();
  }
  if (bytes > 0) send();
  result.exposed_seconds = (std::max)(0.0, arrived - step.backward_ns * 1e-9);
  return result;
}

}  // namespace SOMA_NAMESPACE::neuroncore
