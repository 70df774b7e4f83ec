#pragma once
// The functions of row_optimizers.hpp.

#include <soma/optim/row_optimizers.hpp>

#include <soma/ops/ranges.hpp>
#include <soma/ops/sparse/table.hpp>
#include <soma/optim/optimizer.hpp>
#include <soma/optim/ranges.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE void RowOptimizer::describe(Record& record) const {
  record.set("optimizer", std::string(name_));
  describe_own(record);
  describe_groups(record);
}

SOMA_INLINE void RowOptimizer::step(const Step& step) {
  detail::check_step(step);
  check_gradients(step);
  const FloatEnvironment environment;
  const SparseOperators& operators = *sparse_table(context_, name_).operators;
  for (detail::Slot& slot : slots_) {
    const Gradient gradient = slot.parameter.gradient();
    if (!gradient.defined()) continue;
    const Tensor weight = slot.parameter.value();
    make_states(slot);
    RowStepSetting setting{
        .rate = static_cast<float>(step.rate * static_cast<double>(slot.rate_factor)),
        .gradient_factor = step.gradient_factor};
    complete(setting, step.rate * static_cast<double>(slot.rate_factor), slot.steps);
    const Tensor inputs[] = {weight, gradient.values, gradient.rows, slot.first, slot.second};
    if (weight.elements() != 0)
      run(context_, operator_of(operators), setting,
          std::span(inputs).first(3 + state_names_.size()));
    ++slot.steps;
  }
}

SOMA_INLINE StateDict RowOptimizer::state() const {
  StateDict state;
  for (const detail::Slot& slot : slots_) {
    if (slot.steps == 0) continue;
    const std::string& name = slot.parameter.name;
    state.set(name + ".steps", Tensor::scalar(context_, static_cast<std::int64_t>(slot.steps)));
    for (std::size_t i = 0; i < state_names_.size(); ++i)
      state.set(name + state_names_[i], i == 0 ? slot.first : slot.second);
  }
  return state;
}

SOMA_INLINE void RowOptimizer::load_state(const StateDict& state) {
  std::vector<detail::Slot> loaded = slots_;
  std::size_t used = 0;
  for (detail::Slot& slot : loaded) {
    slot.steps = 0;
    slot.first = slot.second = Tensor();
    const std::string& name = slot.parameter.name;
    bool some = state.find(name + ".steps") != nullptr;
    for (const std::string& suffix : state_names_)
      some = some || state.find(name + suffix) != nullptr;
    if (!some) continue;
    slot.steps = steps_in(entry(state, name + ".steps", Shape{}, DType::int64), name);
    for (std::size_t i = 0; i < state_names_.size(); ++i)
      (i == 0 ? slot.first : slot.second) =
          clone(context_, entry(state, name + state_names_[i], state_shape(slot), DType::fp32));
    used += 1 + state_names_.size();
  }
  if (used != state.size()) refuse_extra(state);
  slots_ = std::move(loaded);
}

SOMA_INLINE RowOptimizer::RowOptimizer(Context& context, const std::vector<Group>& groups,
                                       std::string_view name, std::vector<std::string> state_names,
                                       bool state_of_rows)
    : Optimizer(context, groups, {}),
      name_(name),
      state_names_(std::move(state_names)),
      state_of_rows_(state_of_rows) {
  static_cast<void>(sparse_table(context, name));
  for (const detail::Slot& slot : slots_) {
    const Tensor value = slot.parameter.value();
    if (slot.weight_decay != 0)
      fail(error_id::operator_value, name, "weight_decay", std::to_string(slot.weight_decay),
           "0: decay would touch every row in every step");
    if (value.dtype() != DType::fp32)
      fail(error_id::tensor_dtype, name, soma::quoted(slot.parameter.name), value.describe(),
           "fp32");
    if (value.rank() == 0)
      fail(error_id::tensor_rank, name, soma::quoted(slot.parameter.name), value.describe(),
           "at least one dimension: rows");
  }
}

SOMA_INLINE Shape RowOptimizer::state_shape(const detail::Slot& slot) const {
  const Shape shape = slot.parameter.value().shape();
  return state_of_rows_ ? shape : Shape{shape[0]};
}

SOMA_INLINE void RowOptimizer::make_states(detail::Slot& slot) const {
  for (std::size_t i = 0; i < state_names_.size(); ++i)
    if (Tensor& state = i == 0 ? slot.first : slot.second; !state.defined()) {
      state = Tensor::empty(context_, state_shape(slot));
      // The first write to fresh memory is the expensive part, so threads share it.
      float* numbers = state.mutable_data<float>();
      soma::detail::for_ranges(context_, state.elements(), 1,
                               [&](std::size_t begin, std::size_t end) {
                                 std::fill(numbers + begin, numbers + end, 0.0f);
                               });
    }
}

SOMA_INLINE const Tensor& RowOptimizer::entry(const StateDict& state, const std::string& name,
                                              const Shape& shape, DType dtype) const {
  const Tensor* found = state.find(name);
  if (found == nullptr)
    fail(error_id::missing_name, "Optimizer::load_state", soma::quoted(name), "not there",
         "an entry beside the others of its parameter");
  if (found->shape() != shape)
    fail(error_id::state_shape, "Optimizer::load_state", soma::quoted(name), found->describe(),
         to_string(shape));
  if (found->dtype() != dtype)
    fail(error_id::state_dtype, "Optimizer::load_state", soma::quoted(name), found->describe(),
         to_string(dtype));
  return *found;
}

SOMA_INLINE std::uint64_t RowOptimizer::steps_in(const Tensor& steps,
                                                 const std::string& parameter) {
  const std::int64_t number = *steps.data<std::int64_t>();
  if (number < 1)
    fail(error_id::operator_value, "Optimizer::load_state", soma::quoted(parameter + ".steps"),
         std::to_string(number), "at least 1");
  return static_cast<std::uint64_t>(number);
}

SOMA_INLINE void RowOptimizer::refuse_extra(const StateDict& state) const {
  std::string extra;
  for (const auto& [name, tensor] : state) {
    bool known = false;
    for (const detail::Slot& slot : slots_) {
      known = known || name == slot.parameter.name + ".steps";
      for (const std::string& suffix : state_names_)
        known = known || name == slot.parameter.name + suffix;
    }
    if (!known) extra = name;
  }
  fail(error_id::extra_name, "Optimizer::load_state", "state", soma::quoted(extra),
       "the names of this optimizer's states");
}

SOMA_INLINE void fields(FieldVisitor& visitor, RowAdagradOptions& options) {
  // A row has one factor, the learning rate divided by the root and epsilon. It has to be finite
  // where the root is 0, or it would make NaN of gradients of 0.
  visitor.option("epsilon", options.epsilon, {.least = 0x1p-100, .fp32 = true});
}

SOMA_INLINE RowAdagrad::RowAdagrad(Context& context, const std::vector<Group>& groups,
                                   const RowAdagradOptions& options)
    : RowOptimizer(context, groups, "row_adagrad", {".squares"}, false), options_(options) {
  check_ranges("Optimizer", options);
}

SOMA_INLINE void RowAdagrad::describe_own(Record& record) const {
  record.set("optimizer.epsilon", options_.epsilon);
}

SOMA_INLINE void RowAdagrad::complete(RowStepSetting& setting, double, std::uint64_t) const {
  setting.epsilon = static_cast<float>(options_.epsilon);
}

SOMA_INLINE void fields(FieldVisitor& visitor, RowAdamOptions& options) {
  visitor.option("beta1", options.beta1, share_range);
  visitor.option("beta2", options.beta2, share_range);
  visitor.option("epsilon", options.epsilon, epsilon_range);
}

SOMA_INLINE RowAdam::RowAdam(Context& context, const std::vector<Group>& groups,
                             const RowAdamOptions& options)
    : RowOptimizer(context, groups, "row_adam", {".first_moment", ".second_moment"}, true),
      options_(options) {
  check_ranges("Optimizer", options);
}

SOMA_INLINE void RowAdam::describe_own(Record& record) const {
  record.set("optimizer.beta1", options_.beta1);
  record.set("optimizer.beta2", options_.beta2);
  record.set("optimizer.epsilon", options_.epsilon);
}

SOMA_INLINE void RowAdam::complete(RowStepSetting& setting, double rate,
                                   std::uint64_t steps) const {
  const double correction1 = 1 - portable_power(options_.beta1, steps + 1);
  const double correction2 = 1 - portable_power(options_.beta2, steps + 1);
  setting.beta1 = static_cast<float>(options_.beta1);
  setting.beta2 = static_cast<float>(options_.beta2);
  setting.epsilon = static_cast<float>(options_.epsilon);
  setting.one_minus_beta1 = static_cast<float>(1 - options_.beta1);
  setting.one_minus_beta2 = static_cast<float>(1 - options_.beta2);
  setting.step_size = static_cast<float>(rate / correction1);
  setting.inverse_root_correction2 = static_cast<float>(1 / std::sqrt(correction2));
}

}  // namespace SOMA_NAMESPACE::optim
