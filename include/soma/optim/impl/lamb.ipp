#pragma once
// The functions of lamb.hpp.

#include <soma/optim/lamb.hpp>

#include <soma/ops/records.hpp>
#include <soma/optim/optimizer.hpp>
#include <soma/optim/ranges.hpp>

#include <cmath>
#include <cstdint>
#include <vector>

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE void fields(FieldVisitor& visitor, LambOptions& options) {
  visitor.option("beta1", options.beta1, share_range);
  visitor.option("beta2", options.beta2, share_range);
  visitor.option("epsilon", options.epsilon, epsilon_range);
}

SOMA_INLINE Lamb::Lamb(Context& context, const std::vector<Group>& groups,
                       const LambOptions& options)
    : Optimizer(context, groups, options.storage), options_(options) {
  check_ranges("Optimizer", options);
}

SOMA_INLINE void Lamb::describe(Record& record) const {
  record.set("optimizer", "lamb");
  record.set("optimizer.beta1", options_.beta1);
  record.set("optimizer.beta2", options_.beta2);
  record.set("optimizer.epsilon", options_.epsilon);
  describe_groups(record);
  describe_storage(record, options_.storage);
}

SOMA_INLINE void Lamb::step(const Step& step) {
  detail::check_step(step);
  check_gradients(step);
  const FloatEnvironment environment;
  for (detail::Slot& slot : slots_) {
    const Gradient gradient = slot.parameter.gradient();
    if (!gradient.defined()) continue;
    const detail::RestingRow resting(context_, slot);
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

}  // namespace SOMA_NAMESPACE::optim
