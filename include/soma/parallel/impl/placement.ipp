#pragma once
// The functions of placement.hpp.

#include <soma/parallel/placement.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

SOMA_INLINE PipelinePosition pipeline_position(std::size_t rank, std::size_t ranks,
                                               std::size_t partitions, Placement placement) {
  const std::size_t replicas = ranks / partitions;
  return placement == Placement::cluster ? PipelinePosition{rank % partitions, rank / partitions}
                                         : PipelinePosition{rank / replicas, rank % replicas};
}

SOMA_INLINE std::size_t pipeline_rank(PipelinePosition position, std::size_t ranks,
                                      std::size_t partitions, Placement placement) {
  const std::size_t replicas = ranks / partitions;
  return placement == Placement::cluster ? position.replica * partitions + position.stage
                                         : position.stage * replicas + position.replica;
}

}  // namespace SOMA_NAMESPACE
