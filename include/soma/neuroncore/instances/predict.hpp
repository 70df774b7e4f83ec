#pragma once
// The time of a data-parallel training step on the cores of an instance, estimated from one core's
// time by the clock and from the time of collective operations.
//
// Gradients are reduced in buckets while backward continues: a bucket travels once its last
// gradient exists and the previous bucket has arrived. Buckets that are still travelling when
// backward has ended are exposed. The estimate leaves out the host, the input, launches, and
// everything between steps.

#include <soma/neuroncore/instances/collectives.hpp>
#include <soma/neuroncore/instances/instance.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

namespace SOMA_NAMESPACE::neuroncore {

// A parameter's gradient: its bytes, and the time in ns from the step's beginning until backward
// has computed it.
struct GradientReady {
  double bytes = 0, ns = 0;
};

// A step of one core: forward and backward end at `backward_ns`, the optimizer at `ns`.
struct CoreStep {
  double backward_ns = 0, ns = 0;
  std::span<const GradientReady> gradients{};  // in the order in which backward ends them
};

struct StepPrediction {
  double core_seconds = 0;     // one core alone
  double reduce_seconds = 0;   // all buckets together
  double exposed_seconds = 0;  // the part of reduce_seconds that backward does not hide
  std::size_t buckets = 0;

  double seconds() const { return core_seconds + exposed_seconds; }
  double steps_per_second() const;
};

// The step on `ranks` cores with a replica each; buckets hold at least `bucket_bytes`, except the
// last one. Errors neuroncore.instance: as of collective_seconds(), and buckets of no bytes.
StepPrediction predict_step(const CoreStep& step, std::size_t ranks, const Instance& instance,
                            double bucket_bytes = 50e6);

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/instances/impl/predict.ipp>
#endif
