#pragma once
// The assignment of ranks to stages and pipelines.

#include <soma/base/config.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

enum class Placement : std::uint8_t {
  cluster,  // the stages of a pipeline are neighbours: {0, 1}, {2, 3}
  spread,   // its replicas are: stages {0, 1}, {2, 3}, pipelines {0, 2}, {1, 3}
};

struct PipelinePosition {
  std::size_t stage = 0, replica = 0;
  friend bool operator==(const PipelinePosition&, const PipelinePosition&) = default;
};

// The position of a rank; `ranks` is a multiple of `partitions`.
PipelinePosition pipeline_position(std::size_t rank, std::size_t ranks, std::size_t partitions,
                                   Placement placement);
std::size_t pipeline_rank(PipelinePosition position, std::size_t ranks, std::size_t partitions,
                          Placement placement);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/parallel/impl/placement.ipp>
#endif
