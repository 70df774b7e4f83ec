#pragma once
// The functions of sgd.hpp.

#include <soma/optim/sgd.hpp>

#include <soma/ops/records.hpp>
#include <soma/optim/optimizer.hpp>
#include <soma/optim/ranges.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE void fields(FieldVisitor& visitor, SgdOptions& options) {
  visitor.option("momentum", options.momentum, NumberRange::at_least(0));
  visitor.option("dampening", options.dampening, finite_number);
}

SOMA_INLINE Sgd::Sgd(Context& context, const std::vector<Group>& groups, const SgdOptions& options)
    : Optimizer(context, groups, options.storage), options_(options) {
  check_ranges("Optimizer", options);
}

SOMA_INLINE void Sgd::describe(Record& record) const {
  record.set("optimizer", "sgd");
  record.set("optimizer.momentum", static_cast<double>(options_.momentum));
  record.set("optimizer.dampening", static_cast<double>(options_.dampening));
  record.set("optimizer.nesterov", options_.nesterov);
  describe_groups(record);
  describe_storage(record, options_.storage);
}

SOMA_INLINE void Sgd::step(const Step& step) {
  detail::check_step(step);
  check_gradients(step);
  for (detail::Slot& slot : slots_) {
    const Gradient gradient = slot.parameter.gradient();
    if (!gradient.defined()) continue;
    const detail::RestingRow resting(context_, slot);
    const Tensor weight = slot.rows_of(slot.parameter.value());
    if (options_.momentum != 0)
      detail::ensure_state(context_, slot.first, slot, options_.storage.state);
    const SgdSetting setting{
        .rate = static_cast<float>(step.rate * static_cast<double>(slot.rate_factor)),
        .momentum = options_.momentum,
        .dampening = options_.dampening,
        .weight_decay = slot.weight_decay,
        .gradient_factor = step.gradient_factor,
        .nesterov = options_.nesterov,
        .first_step = slot.steps == 0,
        .first_row = slot.first_row,
        .weight = drawn(options_.storage.weight_rounding),
        .state = drawn(options_.storage.state_rounding),
        .seed = options_.storage.seed,
        .stream = slot.stream,
        .step = static_cast<std::uint32_t>(slot.steps)};
    if (weight.elements() != 0)
      run(context_, *context_.built_in().sgd_step, setting,
          {weight, gradient.values, gradient.rows, slot.first});
    ++slot.steps;
  }
}

}  // namespace SOMA_NAMESPACE::optim
