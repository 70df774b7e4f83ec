#pragma once
// The critical path of a program: its last instruction, the instruction for which that one waited,
// and so on back to the beginning. Only shortening this path makes the program faster.

#include <soma/neuroncore/clock/timeline.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::neuroncore::detail {

// Calls visit(index, ran, waited) from the end to the beginning: an instruction ran for `ran` ns of
// the path, after the path had waited for `waited` ns. All these numbers add up to timeline.ns.
template <class Visit>
void for_path(const Timeline& timeline, const Visit& visit) {
  const auto& all = timeline.instructions;
  if (all.empty()) return;
  const auto last = std::max_element(all.begin(), all.end(),
                                     [](const Timed& a, const Timed& b) { return a.end < b.end; });
  auto index = static_cast<std::uint32_t>(last - all.begin());
  double now = timeline.ns;
  // No more steps than instructions: of two that begin at the same time each may name the other.
  for (std::size_t left = all.size(); index != Timed::nobody && left != 0; --left) {
    const Timed& timed = all[index];
    const double start = (std::min)(timed.start, now);
    double before = start;  // until when the path stood still
    if (timed.bound == Bound::launch || timed.cause == Timed::nobody)
      before = 0;
    else if (timed.bound == Bound::descriptors && timed.described > 0)
      before = (std::min)(start, timed.described);  // its own; else it waited for another's
    else if (timed.bound == Bound::semaphore || timed.bound == Bound::result)
      before = (std::min)(start, all[timed.cause].end);
    visit(index, now - start, start - before);
    now = before;
    index = timed.cause;
  }
}

}  // namespace SOMA_NAMESPACE::neuroncore::detail
