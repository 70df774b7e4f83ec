#pragma once
// AdamW (arXiv 1711.05101): Adam with decoupled weight decay.

#include <soma/optim/optimizer.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace soma::optim {

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  StepStorage storage{};
};

class AdamW final : public Optimizer {
 public:
  AdamW(Context& context, const std::vector<Group>& groups, const AdamWOptions& options = {})
      : Optimizer(context, groups, options.storage.state), options_(options) {}
  AdamW(Context& context, Parameters parameters, float weight_decay = 0,
        const AdamWOptions& options = {})
      : AdamW(
            context,
            std::vector<Group>{{.parameters = std::move(parameters), .weight_decay = weight_decay}},
            options) {}

  // For an optimizer whose states several ranks share: see Optimizer::keep_rows_of().
  template <class RowsOf>
  void keep_rows(const RowsOf& rows_of) {
    keep_rows_of(rows_of);
  }

  // Updates the parameters that have a gradient; gradients stay. Bias corrections and the like are
  // computed in double, the same on every machine, and rounded to fp32 once.
  void step(const Step& step) override {
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
          .decay_factor =
              static_cast<float>(std::fma(-rate, static_cast<double>(slot.weight_decay), 1.0)),
          .step_size = static_cast<float>(rate / correction1),
          .inverse_root_correction2 = static_cast<float>(1 / std::sqrt(correction2)),
          .gradient_factor = step.gradient_factor,
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
  AdamWOptions options_;
};

}  // namespace soma::optim
