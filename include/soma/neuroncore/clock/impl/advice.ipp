#pragma once
// The functions of advice.hpp.

#include <soma/neuroncore/clock/advice.hpp>

#include <soma/neuroncore/clock/summary.hpp>
#include <soma/neuroncore/clock/text_parts.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore::detail {

SOMA_INLINE const LaneUse* use_of(const Summary& summary, Engine engine) {
  for (const LaneUse& use : summary.lanes)
    if (use.lane == lane_of(engine)) return &use;
  return nullptr;
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail

namespace SOMA_NAMESPACE::neuroncore {

SOMA_INLINE std::vector<std::string> advice(const Summary& summary) {
  using detail::percent;
  std::vector<std::string> lines;
  if (summary.transpose_share > advice_transposes)
    lines.push_back("transposes take " + percent(summary.transpose_share) +
                    " of the Tensor engine's time: load the operand transposed once, or keep it "
                    "in the layout that products want");
  if (summary.buffers != 0 && summary.mean_buffer < advice_buffer_bytes &&
      summary.dma_busy_ns > advice_wait * summary.ns)
    lines.push_back("the mean buffer of a transfer is " + soma::fixed(summary.mean_buffer, 0) +
                    " bytes, and each costs as much as 2 KiB: let a partition take several rows "
                    "that lie side by side");
  if (const LaneUse* vector = detail::use_of(summary, Engine::vector);
      vector != nullptr && summary.fp32_twice_ns > advice_fp32 * vector->busy_ns)
    lines.push_back("fp32 element-wise work at two cycles an element takes " +
                    percent(summary.fp32_twice_ns / vector->busy_ns) +
                    " of the Vector engine's time: one cycle with one operand in PSUM, or all bf16 "
                    "in SBUF");
  double ports = 0;
  for (const LaneUse& use : summary.lanes)
    ports += use.idle_ns[static_cast<std::size_t>(Bound::port)];
  if (ports > advice_wait * summary.ns)
    lines.push_back("engines wait " + detail::microseconds(ports) +
                    " us for each other's memory port: Vector and GpSimd engine share SBUF's, "
                    "Vector and Scalar engine PSUM's");
  for (const Rank& rank : summary.ranks)
    if (rank.kind == "wait" && rank.name == "start of transfers" &&
        rank.path_ns > advice_wait * summary.ns)
      lines.push_back("the start of transfers takes " + percent(rank.path_ns / summary.ns) +
                      " of the time: load earlier, into more tiles that take turns");
  return lines;
}

}  // namespace SOMA_NAMESPACE::neuroncore
