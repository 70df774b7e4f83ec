#pragma once
// Adam (arXiv 1412.6980), with weight decay that is added to the gradient. AdamW has the decay
// apart from it, which is the better choice where weights decay at all.

#include <soma/optim/optimizer.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace soma::optim {

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  StepStorage storage{};
};

// Without weight decay its steps are AdamW's, to the bit.
class Adam final : public Optimizer {
 public:
  Adam(Context& context, const std::vector<Group>& groups, const AdamOptions& options = {})
      : Optimizer(context, groups, options.storage), options_(options) {
    detail::check_beta("beta1", options.beta1);
    detail::check_beta("beta2", options.beta2);
    detail::check_not_negative("epsilon", options.epsilon);
  }
  Adam(Context& context, Parameters parameters, float weight_decay = 0,
       const AdamOptions& options = {})
      : Adam(
            context,
            std::vector<Group>{{.parameters = std::move(parameters), .weight_decay = weight_decay}},
            options) {}

  void describe(Record& record) const override {
    record.set("optimizer", "adam");
    record.set("optimizer.beta1", options_.beta1);
    record.set("optimizer.beta2", options_.beta2);
    record.set("optimizer.epsilon", options_.epsilon);
    describe_groups(record);
    describe_storage(record, options_.storage);
  }
  bool steps_rows_alone() const override { return true; }

  // Updates the parameters that have a gradient; gradients stay.
  void step(const Step& step) override {
    detail::check_step(step);
    check_gradients();
    const FloatEnvironment environment;
    for (detail::Slot& slot : slots_) {
      const Gradient gradient = slot.parameter.gradient();
      if (!gradient.defined()) continue;
      const Tensor weight = slot.rows_of(slot.parameter.value());
      detail::ensure_state(context_, slot.first, slot, options_.storage.state);
      detail::ensure_state(context_, slot.second, slot, options_.storage.state);
      const double rate = step.rate * static_cast<double>(slot.rate_factor);
      const double correction1 = 1 - portable_power(options_.beta1, slot.steps + 1);
      const double correction2 = 1 - portable_power(options_.beta2, slot.steps + 1);
      const AdamSetting setting{
          .beta1 = static_cast<float>(options_.beta1),
          .beta2 = static_cast<float>(options_.beta2),
          .epsilon = static_cast<float>(options_.epsilon),
          .one_minus_beta1 = static_cast<float>(1 - options_.beta1),
          .one_minus_beta2 = static_cast<float>(1 - options_.beta2),
          .step_size = static_cast<float>(rate / correction1),
          .inverse_root_correction2 = static_cast<float>(1 / std::sqrt(correction2)),
          .gradient_factor = step.gradient_factor,
          .coupled_decay = slot.weight_decay,
          .first_row = slot.first_row,
          .weight = options_.storage.weight_rounding,
          .state = options_.storage.state_rounding,
          .seed = options_.storage.seed,
          .stream = slot.stream,
          .step = static_cast<std::uint32_t>(slot.steps)};
      if (weight.elements() != 0)
        run(context_, *context_.built_in().adam_step, setting,
            {weight, gradient.values, gradient.rows, slot.first, slot.second});
      ++slot.steps;
    }
  }

 private:
  std::size_t moments() const override { return 2; }

  AdamOptions options_;
};

}  // namespace soma::optim
