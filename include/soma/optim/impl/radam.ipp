#pragma once
// The functions of radam.hpp.

#include <soma/optim/radam.hpp>

#include <soma/numeric/fused.hpp>
#include <soma/numeric/portable_math.hpp>
#include <soma/ops/records.hpp>
#include <soma/optim/adamw.hpp>
#include <soma/optim/optimizer.hpp>
#include <soma/optim/ranges.hpp>

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE void fields(FieldVisitor& visitor, RAdamOptions& options) {
  visitor.option("beta1", options.beta1, share_range);
  visitor.option("beta2", options.beta2, share_range);
  visitor.option("epsilon", options.epsilon, epsilon_range);
}

SOMA_INLINE RAdam::RAdam(Context& context, const std::vector<Group>& groups,
                         const RAdamOptions& options)
    : Optimizer(context, groups, options.storage), options_(options) {
  check_ranges("Optimizer", options);
}

SOMA_INLINE void RAdam::describe(Record& record) const {
  record.set("optimizer", "radam");
  record.set("optimizer.beta1", options_.beta1);
  record.set("optimizer.beta2", options_.beta2);
  record.set("optimizer.epsilon", options_.epsilon);
  record.set("optimizer.decoupled", options_.decoupled);
  describe_groups(record);
  describe_storage(record, options_.storage);
}

// Adam's step is step_size m / (sqrt(v) inverse_root_correction2 + epsilon). PyTorch's epsilon
// stands beside the root of v as it is stored, so the correction is a factor of the step.
SOMA_INLINE AdamSetting RAdam::setting_of(const detail::Slot& slot, const Step& step) const {
  AdamSetting setting = detail::adam_setting(slot, step,
                                             {.beta1 = options_.beta1,
                                              .beta2 = options_.beta2,
                                              .epsilon = options_.epsilon,
                                              .storage = options_.storage});
  const double rate = step.rate * static_cast<double>(slot.rate_factor);
  const double number = static_cast<double>(slot.steps + 1);
  const double power = portable_power(options_.beta2, slot.steps + 1);
  const double correction1 = 1 - portable_power(options_.beta1, slot.steps + 1);
  const double correction2 = 1 - power;
  // The length of the moving mean, if it had the weights of a simple one; 5 is the paper's limit.
  const double longest = 2 / (1 - options_.beta2) - 1;
  const double length = longest - 2 * number * power / correction2;
  if (length > 5) {
    const double share =
        (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length);
    setting.step_size =
        static_cast<float>(rate / correction1 * std::sqrt(share) * std::sqrt(correction2));
    setting.inverse_root_correction2 = 1;
  } else {
    setting.step_size = static_cast<float>(rate / correction1);
    setting.inverse_root_correction2 = 0;  // the divisor is epsilon alone
    setting.epsilon = 1;
  }
  if (options_.decoupled)
    setting.decay_factor =
        static_cast<float>(fused_multiply_add(-rate, static_cast<double>(slot.weight_decay), 1.0));
  else
    setting.coupled_decay = slot.weight_decay;
  return setting;
}

SOMA_INLINE void RAdam::step(const Step& step) {
  detail::check_step(step);
  check_gradients(step);
  const FloatEnvironment environment;
  for (detail::Slot& slot : slots_) {
    const Gradient gradient = slot.parameter.gradient();
    if (!gradient.defined()) continue;
    const detail::RestingRow resting(context_, slot);
    const Tensor weight = slot.rows_of(slot.parameter.value());
    detail::ensure_state(context_, slot.first, slot, options_.storage.state);
    detail::ensure_state(context_, slot.second, slot, options_.storage.state);
    AdamSetting setting = setting_of(slot, step);
    setting.weight = drawn(options_.storage.weight_rounding);
    setting.state = drawn(options_.storage.state_rounding);
    if (weight.elements() != 0)
      run(context_, *context_.built_in().adam_step, setting,
          {weight, gradient.values, gradient.rows, slot.first, slot.second});
    ++slot.steps;
  }
}

}  // namespace SOMA_NAMESPACE::optim
