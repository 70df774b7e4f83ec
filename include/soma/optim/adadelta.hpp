#pragma once
// Adadelta (arXiv 1212.5701): steps as large as earlier steps were, divided by the root of a moving
// mean of squared gradients. As in PyTorch, weight decay is added to the gradient, and the learning
// rate is a factor of the step: 1 is the paper's.

#include <soma/optim/optimizer.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

struct AdadeltaOptions {
  double rho = 0.9;  // share of the old means that a step keeps
  double epsilon = 1e-6;
  StepStorage storage{};
};
void fields(FieldVisitor& visitor, AdadeltaOptions& options);

class Adadelta final : public Optimizer {
 public:
  Adadelta(Context& context, const std::vector<Group>& groups, const AdadeltaOptions& options = {});
  Adadelta(Context& context, Parameters parameters, const AdadeltaOptions& options = {})
      : Adadelta(context, {Group{.parameters = std::move(parameters)}}, options) {}

  SOMA_INLINE void describe(Record& record) const override;
  bool steps_rows_alone() const override { return true; }

  // Updates the parameters that have a gradient; gradients stay.
  SOMA_INLINE void step(const Step& step) override;

 private:
  // The mean of squared gradients, and that of squared steps.
  std::size_t moments() const override { return 2; }

  AdadeltaOptions options_;
};

}  // namespace SOMA_NAMESPACE::optim

#ifndef SOMA_DISPATCH
#include <soma/optim/impl/adadelta.ipp>
#endif
