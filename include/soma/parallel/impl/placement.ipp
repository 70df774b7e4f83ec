#pragma once
// The functions of placement.hpp.

#include <soma/parallel/placement.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

SOMA_INLINE PipelinePlace pipeline_place(std::size_t rank, std::size_t ranks,
                                         std::size_t partitions, Placement placement) {
  const std::size_t replicas = ranks / partitions;
  return placement == Placement::cluster ? PipelinePlace{rank % partitions, rank / partitions}
                                         : PipelinePlace{rank / replicas, rank % replicas};
}

SOMA_INLINE std::size_t pipeline_rank(PipelinePlace place, std::size_t ranks,
                                      std::size_t partitions, Placement placement) {
  const std::size_t replicas = ranks / partitions;
  return placement == Placement::cluster ? place.replica * partitions + place.stage
                                         : place.stage * replicas + place.replica;
}

}  // namespace SOMA_NAMESPACE
