#pragma once
// Replay: the outputs of the last operator that a recomputed function applied. Backward takes them
// from here, so that this operator does not run a second time (autograd/recompute.hpp).

#include <soma/ops/run.hpp>
#include <soma/tensor/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace SOMA_NAMESPACE::detail {

struct Replay {
  Replay() = default;
  Replay(std::uint64_t applied, const Outputs& given);
  // True if the function returned this operator's first output unchanged, and keeping the other
  // outputs costs less memory than the result.
  bool serves(const Tensor& result) const;
  bool unchanged() const;

  std::uint64_t number =
      0;  // the operator's number, in the order in which the function applies them; 0: none
  Outputs outputs;
  std::array<std::uint64_t, max_outputs> versions{};
};

// While it lives, the outputs of each operator go to `here`, and at its end to the place before.
class [[nodiscard]] LatestOutputs {
 public:
  LatestOutputs(Replay*& latest, Replay& here)
      : latest_(latest), before_(std::exchange(latest, &here)) {}
  ~LatestOutputs();
  LatestOutputs(const LatestOutputs&) = delete;
  LatestOutputs& operator=(const LatestOutputs&) = delete;

 private:
  Replay*& latest_;
  Replay* before_;
};

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/autograd/impl/replay.ipp>
#endif
