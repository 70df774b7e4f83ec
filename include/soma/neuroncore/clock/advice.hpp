#pragma once
// Advice: suggestions from a summary, each by a rule with a threshold. If no rule applies, there is
// no advice.

#include <soma/neuroncore/clock/summary.hpp>
#include <soma/neuroncore/clock/text_parts.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::neuroncore {

// The thresholds above (or below) which a rule applies.
inline constexpr double advice_transposes = 0.1;    // share of the Tensor engine's busy time
inline constexpr double advice_buffer_bytes = 512;  // a mean buffer below it
inline constexpr double advice_fp32 = 0.1;          // share of the Vector engine's busy time
inline constexpr double advice_wait = 0.1;          // share of the program's time

namespace detail {

const LaneUse* use_of(const Summary& summary, Engine engine);

}  // namespace detail

std::vector<std::string> advice(const Summary& summary);

}  // namespace SOMA_NAMESPACE::neuroncore

#ifndef SOMA_DISPATCH
#include <soma/neuroncore/clock/impl/advice.ipp>
#endif
