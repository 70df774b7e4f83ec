#pragma once
// The functions of replay.hpp.

#include <soma/autograd/replay.hpp>

#include <soma/ops/run.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE Replay::Replay(std::uint64_t applied, const Outputs& given)
    : number(applied), outputs(given) {
  for (std::size_t i = 0; i < max_outputs; ++i)
    if (outputs[i].defined()) versions[i] = outputs[i].version();
}

SOMA_INLINE bool Replay::serves(const Tensor& result) const {
  std::size_t others = 0;
  for (std::size_t i = 1; i < max_outputs; ++i)
    if (outputs[i].defined()) others += outputs[i].bytes();
  return outputs[0].defined() && outputs[0].address() == result.address() &&
         others < result.bytes() && unchanged();
}

SOMA_INLINE bool Replay::unchanged() const {
  for (std::size_t i = 0; i < max_outputs; ++i)
    if (outputs[i].defined() && outputs[i].version() != versions[i]) return false;
  return true;
}

SOMA_INLINE LatestOutputs::~LatestOutputs() {
  if (before_ != nullptr) *before_ = *latest_;
  latest_ = before_;
}

}  // namespace SOMA_NAMESPACE::detail
