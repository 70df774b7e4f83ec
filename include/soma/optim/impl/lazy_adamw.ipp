#pragma once
// The functions of lazy_adamw.hpp.

#include <soma/optim/lazy_adamw.hpp>

#include <soma/numeric/fused.hpp>
#include <soma/ops/sparse/table.hpp>
#include <soma/optim/optimizer.hpp>
#include <soma/optim/ranges.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE void fields(FieldVisitor& visitor, LazyAdamWOptions& options) {
  visitor.option("beta1", options.beta1, share_range);
  visitor.option("beta2", options.beta2, share_range);
  visitor.option("epsilon", options.epsilon, epsilon_range);
}

SOMA_INLINE LazyAdamW::LazyAdamW(Context& context, const std::vector<Group>& groups,
                                 const LazyAdamWOptions& options)
    : Optimizer(context, groups, {}), options_(options), history_(slots_.size()) {
  check_ranges("Optimizer", options);
  static_cast<void>(sparse_table(context, "LazyAdamW"));
  for (const detail::Slot& slot : slots_) {
    const Tensor value = slot.parameter.value();
    if (value.dtype() != DType::fp32)
      fail(error_id::tensor_dtype, "LazyAdamW", soma::quoted(slot.parameter.name), value.describe(),
           "fp32");
    if (value.rank() == 0)
      fail(error_id::tensor_rank, "LazyAdamW", soma::quoted(slot.parameter.name), value.describe(),
           "at least one dimension: rows");
  }
}

SOMA_INLINE LazyAdamW::LazyAdamW(Context& context, Parameters parameters, float weight_decay,
                                 const LazyAdamWOptions& options)
    : LazyAdamW(
          context,
          std::vector<Group>{{.parameters = std::move(parameters), .weight_decay = weight_decay}},
          options) {}

SOMA_INLINE void LazyAdamW::describe(Record& record) const {
  record.set("optimizer", "lazy_adamw");
  record.set("optimizer.beta1", options_.beta1);
  record.set("optimizer.beta2", options_.beta2);
  record.set("optimizer.epsilon", options_.epsilon);
  describe_groups(record);
}

SOMA_INLINE void LazyAdamW::step(const Step& step) {
  detail::check_step(step);
  check_gradients(step);
  const FloatEnvironment environment;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    detail::Slot& slot = slots_[i];
    const Gradient gradient = slot.parameter.gradient();
    if (!gradient.defined()) continue;
    make_states(i);
    ++slot.steps;
    add_to_history(i, step.rate * static_cast<double>(slot.rate_factor));
    apply(i, gradient.values, gradient.rows, step.gradient_factor);
  }
}

SOMA_INLINE void LazyAdamW::catch_up(const Var& parameter, const Tensor& rows) {
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].parameter.var.is(parameter)) {
      if (slots_[i].steps != 0) apply(i, {}, rows, 1);
      return;
    }
  fail(error_id::operator_value, "LazyAdamW::catch_up", "parameter",
       "a variable that is not stepped here", "one of the optimizer's parameters");
}

SOMA_INLINE void LazyAdamW::settle() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].steps == 0 || history_[i].count == 0) continue;
    apply(i, {}, {}, 1);
    history_[i].base = static_cast<std::int64_t>(slots_[i].steps);
    history_[i].count = 0;
  }
}

SOMA_INLINE StateDict LazyAdamW::state() const {
  StateDict state = Optimizer::state();
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].steps != 0) state.set(slots_[i].parameter.name + ".row_steps", history_[i].rows);
  return state;
}

SOMA_INLINE void LazyAdamW::load_state(const StateDict& state) {
  StateDict moments;
  for (const auto& [name, tensor] : state)
    if (!name.ends_with(".row_steps")) moments.set(name, tensor);
  std::vector<History> loaded(slots_.size());
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    const std::string& name = slots_[i].parameter.name;
    const Tensor* rows = state.find(name + ".row_steps");
    const Tensor *steps = state.find(name + ".steps"), *first = state.find(name + ".first_moment");
    if (rows == nullptr && steps == nullptr) continue;
    if (rows == nullptr || steps == nullptr || first == nullptr)
      fail(error_id::missing_name, "LazyAdamW::load_state", soma::quoted(name),
           "without row_steps or its moments", "all of its states");
    check_rows(slots_[i], *rows, *steps, *first);
    loaded[i].rows = clone(context_, *rows);
    loaded[i].base = *steps->data<std::int64_t>();
  }
  Optimizer::load_state(moments);
  history_ = std::move(loaded);
}

SOMA_INLINE void LazyAdamW::make_states(std::size_t i) {
  detail::Slot& slot = slots_[i];
  detail::ensure_state(context_, slot.first, slot, DType::fp32);
  detail::ensure_state(context_, slot.second, slot, DType::fp32);
  if (!history_[i].rows.defined())
    history_[i].rows = Tensor::zeros(context_, Shape{slot.parameter.value().size(0)}, DType::int64);
}

SOMA_INLINE void LazyAdamW::add_to_history(std::size_t i, double rate) {
  History& history = history_[i];
  const detail::Slot& slot = slots_[i];
  const std::size_t room = history.constants.defined() ? history.constants.size(0) : 0;
  if (history.count == room) {
    const Tensor larger = Tensor::empty(context_, Shape{(std::max)(2 * room, std::size_t{64}), 3});
    if (room != 0) copy(history.constants, larger.slice(0, 0, room));
    history.constants = larger;
  }
  const double correction1 = 1 - portable_power(options_.beta1, slot.steps);
  const double correction2 = 1 - portable_power(options_.beta2, slot.steps);
  float* row = history.constants.mutable_data<float>() + 3 * history.count++;
  row[0] = static_cast<float>(rate / correction1);
  row[1] = static_cast<float>(1 / std::sqrt(correction2));
  row[2] =
      static_cast<float>(fused_multiply_add(-rate, static_cast<double>(slot.weight_decay), 1.0));
}

SOMA_INLINE void LazyAdamW::apply(std::size_t i, const Tensor& values, const Tensor& rows,
                                  float factor) {
  const detail::Slot& slot = slots_[i];
  const Tensor weight = slot.parameter.value();
  if (weight.elements() == 0) return;
  const detail::RestingRow resting(context_, slot);
  RowStepSetting setting{.epsilon = static_cast<float>(options_.epsilon),
                         .gradient_factor = factor,
                         .beta1 = static_cast<float>(options_.beta1),
                         .beta2 = static_cast<float>(options_.beta2),
                         .one_minus_beta1 = static_cast<float>(1 - options_.beta1),
                         .one_minus_beta2 = static_cast<float>(1 - options_.beta2)};
  setting.now = static_cast<std::int64_t>(slot.steps);
  setting.base = history_[i].base;
  setting.beta2_exact = options_.beta2;
  setting.sleeps = slot.weight_decay == 0;
  const Tensor history =
      history_[i].count == 0 ? Tensor::empty(context_, Shape{0, 3}) : history_[i].constants;
  run(context_, *sparse_table(context_, "LazyAdamW").operators->row_lazy_adam_step, setting,
      {weight, values, rows, slot.first, slot.second, history_[i].rows, history});
}

SOMA_INLINE void LazyAdamW::check_rows(const detail::Slot& slot, const Tensor& rows,
                                       const Tensor& steps, const Tensor& first) {
  const std::size_t count = slot.parameter.value().size(0);
  if (rows.shape() != Shape{count} || rows.dtype() != DType::int64 || steps.elements() != 1 ||
      steps.dtype() != DType::int64 || first.shape() != slot.parameter.value().shape() ||
      first.dtype() != DType::fp32)
    fail(error_id::state_shape, "LazyAdamW::load_state", soma::quoted(slot.parameter.name),
         rows.describe(), "states of this parameter");
  const std::size_t columns = count == 0 ? 0 : first.elements() / count;
  const std::int64_t now = *steps.data<std::int64_t>();
  for (std::size_t row = 0; row < count; ++row) {
    const std::int64_t stamp = rows.data<std::int64_t>()[row];
    const float* m = first.data<float>() + row * columns;
    const bool rests = std::all_of(m, m + columns, [](float value) { return value == 0; });
    if (stamp < 0 || stamp > now || (stamp != now && !(rests && slot.weight_decay == 0)))
      fail(error_id::operator_value, "LazyAdamW::load_state",
           "row_steps of " + soma::quoted(slot.parameter.name), std::to_string(stamp),
           std::to_string(now) + ", as the parameter's");
  }
}

}  // namespace SOMA_NAMESPACE::optim
