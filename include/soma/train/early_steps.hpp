#pragma once
// EarlySteps: steps each parameter of a task as soon as backward has all of its gradient, and gives
// the gradient back (TrainerOptions::step_early).

#include <soma/autograd/parameter.hpp>
#include <soma/autograd/var.hpp>
#include <soma/optim/optimizer.hpp>
#include <soma/runtime/context.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::train {

class EarlySteps final : public GradientReceiver {
 public:
  // The parameters must stay in place.
  EarlySteps(Context& context, const Parameters& parameters)
      : context_(context), parameters_(parameters) {}

  // Called before backward.
  void begin(optim::Optimizer& optimizer, double rate);
  // Errors parallel.gradient (an addend for several ranks), and those of the optimizer.
  SOMA_INLINE void receive(const Var& parameter, Gradient addend) override;
  SOMA_INLINE void complete(const Var& parameter, DType type) override;
  // Called after backward. Error operator.value: no parameter had a gradient.
  void finish();
  // The norm of the gradients that were given back, with the bits of optim::gradient_norm. After
  // one that is not finite there is no further step.
  double norm() const;

 private:
  Context& context_;
  const Parameters& parameters_;
  optim::Optimizer* optimizer_ = nullptr;
  optim::Step step_{};
  std::vector<std::pair<Var, Gradient>> sums_{};  // that are not complete
  std::vector<double> squares_{};                 // one for each parameter
  bool stepped_ = false, finite_ = true;
};

}  // namespace SOMA_NAMESPACE::train

#ifndef SOMA_DISPATCH
#include <soma/train/impl/early_steps.ipp>
#endif
