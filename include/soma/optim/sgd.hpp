#pragma once
// Stochastic gradient descent with momentum, Nesterov's too.

#include <soma/optim/optimizer.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

struct SgdOptions {
  float momentum = 0;     // the share of the last step's direction that a step keeps
  float dampening = 0;    // the share of a gradient that does not enter the direction
  bool nesterov = false;  // steps by the direction that the next step would keep, too
  StepStorage storage{};
};
void fields(FieldVisitor& visitor, SgdOptions& options);

class Sgd final : public Optimizer {
 public:
  Sgd(Context& context, const std::vector<Group>& groups, const SgdOptions& options = {});
  Sgd(Context& context, Parameters parameters, const SgdOptions& options = {})
      : Sgd(context, {Group{.parameters = std::move(parameters)}}, options) {}

  SOMA_INLINE void describe(Record& record) const override;
  bool steps_rows_alone() const override { return true; }

  // Updates the parameters that have a gradient; gradients stay.
  SOMA_INLINE void step(const Step& step) override;

 private:
  std::size_t moments() const override { return options_.momentum != 0 ? 1 : 0; }

  SgdOptions options_;
};

}  // namespace SOMA_NAMESPACE::optim

#ifndef SOMA_DISPATCH
#include <soma/optim/impl/sgd.ipp>
#endif
