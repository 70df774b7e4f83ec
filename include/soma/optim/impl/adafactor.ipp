#pragma once
// The functions of adafactor.hpp.

#include <soma/optim/adafactor.hpp>

#include <soma/ops/optimizer/settings.hpp>
#include <soma/ops/records.hpp>
#include <soma/optim/optimizer.hpp>
#include <soma/optim/ranges.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE void fields(FieldVisitor& visitor, AdafactorOptions& options) {
  visitor.option("beta2_decay", options.beta2_decay, {.most = 0});
  visitor.option("floor", options.floor, epsilon_range);
  visitor.option("least_scale", options.least_scale, NumberRange::at_least(0));
  visitor.option("clip", options.clip, NumberRange::above(0));
  visitor.option("seed", options.seed);
}

SOMA_INLINE Adafactor::Adafactor(Context& context, const std::vector<Group>& groups,
                                 const AdafactorOptions& options)
    : Optimizer(context, groups, storage_of(options)), options_(options) {
  check_ranges("Optimizer", options);
}

SOMA_INLINE void Adafactor::describe(Record& record) const {
  record.set("optimizer", "adafactor");
  record.set("optimizer.beta2_decay", options_.beta2_decay);
  record.set("optimizer.floor", options_.floor);
  record.set("optimizer.least_scale", options_.least_scale);
  record.set("optimizer.clip", options_.clip);
  describe_groups(record);
  describe_storage(record, storage_of(options_));
}

SOMA_INLINE void Adafactor::step(const Step& step) {
  detail::check_step(step);
  check_gradients(step);
  const FloatEnvironment environment;
  for (detail::Slot& slot : slots_) {
    const Gradient gradient = slot.parameter.gradient();
    if (!gradient.defined()) continue;
    const detail::RestingRow resting(context_, slot);
    const Tensor weight = slot.parameter.value();
    if (!slot.first.defined()) slot.first = Tensor::zeros(context_, moment_shape(slot, 0));
    if (!slot.second.defined() && moments_of(slot) == 2)
      slot.second = Tensor::zeros(context_, moment_shape(slot, 1));
    const double rate = step.rate * static_cast<double>(slot.rate_factor);
    const auto number = static_cast<double>(slot.steps + 1);
    const AdafactorSetting setting{.rate = rate,
                                   .share = portable_pow(number, options_.beta2_decay),
                                   .floor = options_.floor,
                                   .least_scale = options_.least_scale,
                                   .clip = options_.clip,
                                   .relative_step = (std::min)(rate, 1 / std::sqrt(number)),
                                   .weight_decay = slot.weight_decay,
                                   .gradient_factor = step.gradient_factor,
                                   .weight = drawn(options_.weight_rounding),
                                   .seed = options_.seed,
                                   .stream = slot.stream,
                                   .step = static_cast<std::uint32_t>(slot.steps)};
    if (weight.elements() != 0)
      run(context_, *context_.built_in().adafactor_step, setting,
          {weight, gradient.values, gradient.rows, slot.first, slot.second});
    ++slot.steps;
  }
}

SOMA_INLINE StepStorage Adafactor::storage_of(const AdafactorOptions& options) {
  return {.weight_rounding = options.weight_rounding, .seed = options.seed};
}

SOMA_INLINE std::size_t Adafactor::moments_of(const detail::Slot& slot) const {
  return slot.parameter.value().rank() > 1 ? 2 : 1;
}

SOMA_INLINE Shape Adafactor::moment_shape(const detail::Slot& slot, std::size_t moment) const {
  const Shape shape = slot.parameter.value().shape();
  if (shape.rank() < 2) return shape;
  std::size_t matrices = 1;
  for (std::size_t i = 0; i + 2 < shape.rank(); ++i) matrices *= shape[i];
  return {matrices, moment == 0 ? shape[shape.rank() - 2] : shape.columns()};
}

}  // namespace SOMA_NAMESPACE::optim
