#pragma once
// The functions of pipeline_options.hpp.

#include <soma/train/pipeline_options.hpp>

#include <soma/base/record.hpp>
#include <soma/ops/fields.hpp>
#include <soma/parallel/placement.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE void fields(FieldVisitor& visitor, PipelineOptions& options) {
  visitor.option("partitions", options.partitions, NumberRange::at_least(1));
  visitor.option("microbatches", options.microbatches, NumberRange::at_least(1));
  visitor.option("memory_weight", options.memory_weight, NumberRange::within(0, 1));
  visitor.option("memory_limit", options.memory_limit);
}

SOMA_INLINE double PipelineOptions::weight_of_memory() const {
  return memory_weight.value_or(optimize == Optimize::memory ? 0.8 : 0.2);
}

SOMA_INLINE void describe(const PipelineOptions& options, Record& record) {
  record.set("partitions", std::uint64_t{options.partitions});
  record.set("microbatches", std::uint64_t{options.microbatches});
  record.set("pipeline", options.schedule == Pipeline::simple ? "simple" : "interleaved");
  record.set("optimize", options.optimize == Optimize::speed ? "speed" : "memory");
  record.set("placement", options.placement == Placement::cluster ? "cluster" : "spread");
  record.set("memory_weight", options.weight_of_memory());
  record.set("memory_limit", options.memory_limit);
  std::string cuts;
  for (const std::string& cut : options.cuts) cuts.append(cuts.empty() ? "" : " ").append(cut);
  record.set("cuts", cuts);
}

}  // namespace SOMA_NAMESPACE::train
