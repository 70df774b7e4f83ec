#pragma once
// The functions of run_mode.hpp.

#include <soma/programs/run_mode.hpp>

#include <soma/neuroncore/machine.hpp>
#include <soma/neuroncore/order/instruction.hpp>
#include <soma/ops/program.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE PredictedTime& PredictedTime::operator+=(const PredictedTime& other) {
  ns += other.ns;
  for (std::size_t i = 0; i < busy_ns.size(); ++i) busy_ns[i] += other.busy_ns[i];
  return *this;
}

}  // namespace SOMA_NAMESPACE
