#pragma once
// LAMB (arXiv 1904.00962): Adam's direction, scaled for each parameter by the norm of the parameter
// over the norm of the direction.

#include <soma/optim/optimizer.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

namespace SOMA_NAMESPACE::optim {

struct LambOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6;
  StepStorage storage{};
};
void fields(FieldVisitor& visitor, LambOptions& options);

class Lamb final : public Optimizer {
 public:
  Lamb(Context& context, const std::vector<Group>& groups, const LambOptions& options = {});

  SOMA_INLINE void describe(Record& record) const override;

  // Updates the parameters that have a gradient; gradients stay.
  SOMA_INLINE void step(const Step& step) override;

 private:
  std::size_t moments() const override { return 2; }

  LambOptions options_;
};

}  // namespace SOMA_NAMESPACE::optim

#ifndef SOMA_DISPATCH
#include <soma/optim/impl/lamb.ipp>
#endif
