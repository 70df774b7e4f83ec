#pragma once
// The functions of adam.hpp.

#include <soma/optim/adam.hpp>

#include <soma/ops/records.hpp>
#include <soma/optim/adamw.hpp>
#include <soma/optim/optimizer.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE Adam::Adam(Context& context, const std::vector<Group>& groups,
                       const AdamWOptions& options)
    : Optimizer(context, groups, options.storage), options_(options) {
  check_ranges("Optimizer", options);
}

SOMA_INLINE Adam::Adam(Context& context, Parameters parameters, float weight_decay,
                       const AdamWOptions& options)
    : Adam(context,
           std::vector<Group>{{.parameters = std::move(parameters), .weight_decay = weight_decay}},
           options) {}

SOMA_INLINE void Adam::describe(Record& record) const {
  record.set("optimizer", "adam");
  record.set("optimizer.beta1", options_.beta1);
  record.set("optimizer.beta2", options_.beta2);
  record.set("optimizer.epsilon", options_.epsilon);
  describe_groups(record);
  describe_storage(record, options_.storage);
}

SOMA_INLINE void Adam::step(const Step& step) {
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
    AdamSetting setting = detail::adam_setting(slot, step, options_);
    setting.weight = drawn(options_.storage.weight_rounding);
    setting.state = drawn(options_.storage.state_rounding);
    setting.coupled_decay = slot.weight_decay;
    if (weight.elements() != 0)
      run(context_, *context_.built_in().adam_step, setting,
          {weight, gradient.values, gradient.rows, slot.first, slot.second});
    ++slot.steps;
  }
}

}  // namespace SOMA_NAMESPACE::optim
