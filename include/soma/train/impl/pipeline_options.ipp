#pragma once
// The functions of pipeline_options.hpp.

#include <soma/train/pipeline_options.hpp>

#include <soma/base/record.hpp>
#include <soma/ops/fields.hpp>
#include <soma/parallel/placement.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::train {

SOMA_INLINE void fields(FieldVisitor& visitor, PipelineOptions& options) {
  visitor.option("partitions", options.partitions, NumberRange::at_least(1));
  visitor.option("microbatches", options.microbatches, NumberRange::at_least(1));
  visitor.option("memory_limit", options.memory_limit);
  visitor.option("network", options.network, NumberRange::at_least(0));
}

SOMA_INLINE void describe(const PipelineOptions& options, Record& record) {
  record.set("partitions", std::uint64_t{options.partitions});
  record.set("microbatches", std::uint64_t{options.microbatches});
  record.set("pipeline", options.schedule == Pipeline::simple ? "simple" : "interleaved");
  record.set("optimize", options.optimize == Optimize::speed ? "speed" : "memory");
  record.set("placement", options.placement == Placement::cluster ? "cluster" : "spread");
  record.set("memory_limit", options.memory_limit);
  record.set("network", options.network);
  std::string cuts;
  for (const std::string& cut : options.cuts) cuts.append(cuts.empty() ? "" : " ").append(cut);
  record.set("cuts", cuts);
}

}  // namespace SOMA_NAMESPACE::train
