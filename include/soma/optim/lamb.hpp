#pragma once
// LAMB (arXiv 1904.00962): Adam's direction, scaled for each parameter by the norm of the parameter
// over the norm of the direction.

#include <soma/optim/optimizer.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

namespace soma::optim {

struct LambOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6;
  StepStorage storage{};
};

class Lamb final : public Optimizer {
 public:
  Lamb(Context& context, const std::vector<Group>& groups, const LambOptions& options = {})
      : Optimizer(context, groups, options.storage), options_(options) {
    detail::check_beta("beta1", options.beta1);
    detail::check_beta("beta2", options.beta2);
    detail::check_not_negative("epsilon", options.epsilon);
  }

  void describe(Record& record) const override {
    record.set("optimizer", "lamb");
    record.set("optimizer.beta1", options_.beta1);
    record.set("optimizer.beta2", options_.beta2);
    record.set("optimizer.epsilon", options_.epsilon);
    describe_groups(record);
    describe_storage(record, options_.storage);
  }

  // Updates the parameters that have a gradient; gradients stay.
  void step(const Step& step) override {
    detail::check_step(step);
    check_gradients();
    const FloatEnvironment environment;
    for (detail::Slot& slot : slots_) {
      const Gradient gradient = slot.parameter.gradient();
      if (!gradient.defined()) continue;
      detail::ensure_state(context_, slot.first, slot, options_.storage.state);
      detail::ensure_state(context_, slot.second, slot, options_.storage.state);
      const double correction1 = 1 - portable_power(options_.beta1, slot.steps + 1);
      const double correction2 = 1 - portable_power(options_.beta2, slot.steps + 1);
      const LambSetting setting{
          .rate = static_cast<float>(step.rate * static_cast<double>(slot.rate_factor)),
          .beta1 = static_cast<float>(options_.beta1),
          .beta2 = static_cast<float>(options_.beta2),
          .epsilon = static_cast<float>(options_.epsilon),
          .weight_decay = slot.weight_decay,
          .one_minus_beta1 = static_cast<float>(1 - options_.beta1),
          .one_minus_beta2 = static_cast<float>(1 - options_.beta2),
          .inverse_correction1 = static_cast<float>(1 / correction1),
          .inverse_root_correction2 = static_cast<float>(1 / std::sqrt(correction2)),
          .gradient_factor = step.gradient_factor,
          .weight = drawn(options_.storage.weight_rounding),
          .state = drawn(options_.storage.state_rounding),
          .seed = options_.storage.seed,
          .stream = slot.stream,
          .step = static_cast<std::uint32_t>(slot.steps)};
      run(context_, *context_.built_in().lamb_step, setting,
          {slot.parameter.value(), gradient.values, gradient.rows, slot.first, slot.second});
      ++slot.steps;
    }
  }

 private:
  std::size_t moments() const override { return 2; }

  LambOptions options_;
};

}  // namespace soma::optim
