#pragma once
// The functions of adadelta.hpp.

#include <soma/optim/adadelta.hpp>

#include <soma/ops/optimizer/settings.hpp>
#include <soma/ops/records.hpp>
#include <soma/optim/optimizer.hpp>
#include <soma/optim/ranges.hpp>
#include <soma/optim/rmsprop.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE void fields(FieldVisitor& visitor, AdadeltaOptions& options) {
  visitor.option("rho", options.rho, share_range);
  visitor.option("epsilon", options.epsilon, epsilon_range);
}

SOMA_INLINE Adadelta::Adadelta(Context& context, const std::vector<Group>& groups,
                               const AdadeltaOptions& options)
    : Optimizer(context, groups, options.storage), options_(options) {
  check_ranges("Optimizer", options);
}

SOMA_INLINE void Adadelta::describe(Record& record) const {
  record.set("optimizer", "adadelta");
  record.set("optimizer.rho", options_.rho);
  record.set("optimizer.epsilon", options_.epsilon);
  describe_groups(record);
  describe_storage(record, options_.storage);
}

SOMA_INLINE void Adadelta::step(const Step& step) {
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
    RmsSetting setting = detail::rms_setting(slot, step, options_.storage);
    setting.step_squares = true;
    setting.weight = drawn(options_.storage.weight_rounding);
    setting.state = drawn(options_.storage.state_rounding);
    setting.keep = static_cast<float>(options_.rho);
    setting.add = static_cast<float>(1 - options_.rho);
    setting.epsilon = static_cast<float>(options_.epsilon);
    if (weight.elements() != 0)
      run(context_, *context_.built_in().rms_step, setting,
          {weight, gradient.values, gradient.rows, slot.first, slot.second});
    ++slot.steps;
  }
}

}  // namespace SOMA_NAMESPACE::optim
