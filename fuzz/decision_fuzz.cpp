// Any bytes as the decision file of a pipeline: refused, or a plan whose stages have a piece each.

#include <soma/base/error.hpp>
#include <soma/io/record_json.hpp>
#include <soma/parallel/plan.hpp>

#include "check.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  soma::PipelinePlan wanted{.fingerprint = "0123", .partitions = 2, .microbatches = 2};
  for (const char* name : {"embeddings", "layer.0", "layer.1", "head"})
    wanted.pieces.push_back({.name = name, .parameter_bytes = 64});
  wanted.pieces[3].joined = true;
  try {
    const soma::Record record = soma::record_from_json(
        std::string_view(reinterpret_cast<const char*>(data), size), "decision");
    const soma::PipelinePlan plan = plan_from_record(record, wanted);
    soma_fuzz::check(plan.cuts.size() == 1 && plan.cuts[0] > 0 && plan.cuts[0] < 3,
                     "a cut between two pieces that have no common variable");
    soma_fuzz::check(plan.pieces.size() == 4, "all pieces");
  } catch (const soma::Error&) {
  }
  return 0;
}
