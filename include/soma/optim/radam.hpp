#pragma once
// RAdam (arXiv 1908.03265): Adam whose steps are as much smaller as the variance of its second
// moment is not known yet. While that is not known at all, which are the first steps, the step is
// that of the mean gradient alone. As in PyTorch, weight decay is added to the gradient, or kept
// apart from it (RAdamOptions::decoupled).

#include <soma/optim/adamw.hpp>
#include <soma/optim/optimizer.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

struct RAdamOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  bool decoupled = false;  // weight decay as in AdamW
  StepStorage storage{};
};
void fields(FieldVisitor& visitor, RAdamOptions& options);

class RAdam final : public Optimizer {
 public:
  RAdam(Context& context, const std::vector<Group>& groups, const RAdamOptions& options = {});
  RAdam(Context& context, Parameters parameters, const RAdamOptions& options = {})
      : RAdam(context, {Group{.parameters = std::move(parameters)}}, options) {}

  SOMA_INLINE void describe(Record& record) const override;
  bool steps_rows_alone() const override { return true; }

  // Updates the parameters that have a gradient; gradients stay.
  SOMA_INLINE void step(const Step& step) override;

 private:
  std::size_t moments() const override { return 2; }
  AdamSetting setting_of(const detail::Slot& slot, const Step& step) const;

  RAdamOptions options_;
};

}  // namespace SOMA_NAMESPACE::optim

#ifndef SOMA_DISPATCH
#include <soma/optim/impl/radam.ipp>
#endif
