#pragma once
// The functions of rmsprop.hpp.

#include <soma/optim/rmsprop.hpp>

#include <soma/numeric/fused.hpp>
#include <soma/ops/optimizer/settings.hpp>
#include <soma/ops/records.hpp>
#include <soma/optim/optimizer.hpp>
#include <soma/optim/ranges.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim::detail {

SOMA_INLINE RmsSetting rms_setting(const Slot& slot, const Step& step, const StepStorage& storage) {
  return {.rate = static_cast<float>(step.rate * static_cast<double>(slot.rate_factor)),
          .weight_decay = slot.weight_decay,
          .gradient_factor = step.gradient_factor,
          .first_row = slot.first_row,
          .seed = storage.seed,
          .stream = slot.stream,
          .step = static_cast<std::uint32_t>(slot.steps)};
}

}  // namespace SOMA_NAMESPACE::optim::detail

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE void fields(FieldVisitor& visitor, RmsPropOptions& options) {
  visitor.option("alpha", options.alpha, share_range);
  visitor.option("epsilon", options.epsilon, epsilon_range);
  visitor.option("momentum", options.momentum, NumberRange::at_least(0));
}

SOMA_INLINE RmsProp::RmsProp(Context& context, const std::vector<Group>& groups,
                             const RmsPropOptions& options)
    : Optimizer(context, groups, options.storage), options_(options) {
  check_ranges("Optimizer", options);
}

SOMA_INLINE void RmsProp::describe(Record& record) const {
  record.set("optimizer", "rmsprop");
  record.set("optimizer.alpha", options_.alpha);
  record.set("optimizer.epsilon", options_.epsilon);
  record.set("optimizer.momentum", static_cast<double>(options_.momentum));
  describe_groups(record);
  describe_storage(record, options_.storage);
}

SOMA_INLINE void RmsProp::step(const Step& step) {
  detail::check_step(step);
  check_gradients(step);
  const FloatEnvironment environment;
  for (detail::Slot& slot : slots_) {
    const Gradient gradient = slot.parameter.gradient();
    if (!gradient.defined()) continue;
    const detail::RestingRow resting(context_, slot);
    const Tensor weight = slot.rows_of(slot.parameter.value());
    detail::ensure_state(context_, slot.first, slot, options_.storage.state);
    if (options_.momentum != 0)
      detail::ensure_state(context_, slot.second, slot, options_.storage.state);
    RmsSetting setting = detail::rms_setting(slot, step, options_.storage);
    setting.weight = drawn(options_.storage.weight_rounding);
    setting.state = drawn(options_.storage.state_rounding);
    setting.keep = static_cast<float>(options_.alpha);
    setting.add = static_cast<float>(1 - options_.alpha);
    setting.epsilon = static_cast<float>(options_.epsilon);
    setting.momentum = options_.momentum;
    if (weight.elements() != 0)
      run(context_, *context_.built_in().rms_step, setting,
          {weight, gradient.values, gradient.rows, slot.first, slot.second});
    ++slot.steps;
  }
}

SOMA_INLINE void fields(FieldVisitor& visitor, AdagradOptions& options) {
  visitor.option("epsilon", options.epsilon, epsilon_range);
  visitor.option("rate_decay", options.rate_decay, NumberRange::at_least(0));
  visitor.option("initial_square", options.initial_square, NumberRange::at_least(0));
}

SOMA_INLINE Adagrad::Adagrad(Context& context, const std::vector<Group>& groups,
                             const AdagradOptions& options)
    : Optimizer(context, groups, options.storage), options_(options) {
  check_ranges("Optimizer", options);
}

SOMA_INLINE void Adagrad::describe(Record& record) const {
  record.set("optimizer", "adagrad");
  record.set("optimizer.epsilon", options_.epsilon);
  record.set("optimizer.rate_decay", options_.rate_decay);
  record.set("optimizer.initial_square", static_cast<double>(options_.initial_square));
  describe_groups(record);
  describe_storage(record, options_.storage);
}

SOMA_INLINE void Adagrad::step(const Step& step) {
  detail::check_step(step);
  check_gradients(step);
  const FloatEnvironment environment;
  for (detail::Slot& slot : slots_) {
    const Gradient gradient = slot.parameter.gradient();
    if (!gradient.defined()) continue;
    const detail::RestingRow resting(context_, slot);
    const Tensor weight = slot.rows_of(slot.parameter.value());
    if (!slot.first.defined()) slot.first = first_squares(weight.shape());
    RmsSetting setting = detail::rms_setting(slot, step, options_.storage);
    setting.weight = drawn(options_.storage.weight_rounding);
    setting.state = drawn(options_.storage.state_rounding);
    const double slower =
        fused_multiply_add(static_cast<double>(slot.steps), options_.rate_decay, 1.0);
    setting.rate = static_cast<float>(step.rate * static_cast<double>(slot.rate_factor) / slower);
    setting.epsilon = static_cast<float>(options_.epsilon);
    if (weight.elements() != 0)
      run(context_, *context_.built_in().rms_step, setting,
          {weight, gradient.values, gradient.rows, slot.first});
    ++slot.steps;
  }
}

SOMA_INLINE Tensor Adagrad::first_squares(const Shape& shape) const {
  const Tensor squares = Tensor::full(context_, shape, options_.initial_square);
  const DType dtype = options_.storage.state;
  return dtype == DType::fp32
             ? squares
             : run(context_, *context_.built_in().cast, CastSetting{dtype, {}, {}}, {squares})[0];
}

}  // namespace SOMA_NAMESPACE::optim
