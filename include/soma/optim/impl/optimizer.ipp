#pragma once
// The functions of optimizer.hpp.

#include <soma/optim/optimizer.hpp>

#include <soma/autograd/parameter.hpp>
#include <soma/base/record.hpp>
#include <soma/numeric/portable_math.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/fields.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/optim/gradients.hpp>
#include <soma/state/state_dict.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE void fields(FieldVisitor& visitor, Group& group) {
  visitor.option("weight_decay", group.weight_decay, NumberRange::at_least(0));
  visitor.option("rate_factor", group.rate_factor, finite_number);
}

SOMA_INLINE void fields(FieldVisitor& visitor, Step& step) {
  visitor.option("rate", step.rate, NumberRange::at_least(0));
  // A norm that is not finite gives a factor that is not finite (clipping_factor()).
  visitor.option("gradient_factor", step.gradient_factor, any_number);
}

SOMA_INLINE std::vector<Group> decay_groups(const Parameters& parameters, float weight_decay) {
  return decay_groups(parameters, weight_decay,
                      [](const Parameter& parameter) { return parameter.decays(); });
}

}  // namespace SOMA_NAMESPACE::optim

namespace SOMA_NAMESPACE::optim::detail {

SOMA_INLINE Tensor Slot::rows_of(const Tensor& tensor) const {
  if (whole()) return tensor;
  // A tensor of rank 0 counts as one row.
  return (tensor.rank() == 0 ? tensor.reshape(Shape{1}) : tensor).slice(0, first_row, last_row);
}

SOMA_INLINE RestingRow::RestingRow(Context& context, const Slot& slot) {
  const std::size_t row = slot.parameter.var.resting_row();
  if (row == to_end) return;
  const std::size_t first = slot.parameter.first_row + slot.first_row;
  const Tensor rows = slot.rows_of(slot.parameter.value());
  if (rows.rank() == 0 || row < first || row - first >= rows.size(0)) return;
  row_ = rows.slice(0, row - first, row - first + 1);
  kept_ = clone(context, row_);
}

SOMA_INLINE RestingRow::~RestingRow() {
  if (row_.defined()) copy(kept_, row_);
}

SOMA_INLINE void check_new(const std::vector<Slot>& before, const Parameter& parameter) {
  for (const Slot& slot : before) {
    const Parameter& other = slot.parameter;
    if (other.var.is(parameter.var) && parameter.first_row < other.last_row &&
        other.first_row < parameter.last_row)
      fail(error_id::operator_value, "Optimizer", soma::quoted(parameter.name),
           "of the variable of " + soma::quoted(other.name), "each variable once");
  }
}

SOMA_INLINE std::vector<Slot> make_slots(const std::vector<Group>& groups) {
  std::vector<Slot> made;
  for (const Group& group : groups) {
    check_ranges("Optimizer", group);
    for (const Parameter& parameter : group.parameters) {
      if (!parameter.var.defined())
        fail(error_id::tensor_undefined, "Optimizer", soma::quoted(parameter.name),
             "a variable that is not defined", "a parameter");
      check_new(made, parameter);
      if (parameter.var.frozen()) continue;
      made.push_back({parameter, group.weight_decay, group.rate_factor,
                      stream_id(parameter.name, "optimizer")});
    }
  }
  return made;
}

SOMA_INLINE void check_step(const Step& step) { check_ranges("Optimizer", step); }

SOMA_INLINE void ensure_state(Context& context, Tensor& state, const Slot& slot, DType dtype) {
  if (!state.defined())
    state = Tensor::zeros(context, slot.rows_of(slot.parameter.value()).shape(), dtype);
}

}  // namespace SOMA_NAMESPACE::optim::detail

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE void Optimizer::keep_mapping(const Record& described) {
  if (!chosen_)
    mapping_ = described.contains(mapping_entry) ? DrawMapping::ars : DrawMapping::philox;
}

SOMA_INLINE StateDict Optimizer::state() const {
  StateDict state;
  for (const detail::Slot& slot : slots_) {
    if (slot.steps == 0) continue;
    const std::string& name = slot.parameter.name;
    state.set(name + ".steps", Tensor::scalar(context_, static_cast<std::int64_t>(slot.steps)));
    if (slot.first.defined()) state.set(name + ".first_moment", slot.first);
    if (slot.second.defined()) state.set(name + ".second_moment", slot.second);
  }
  return state;
}

SOMA_INLINE void Optimizer::load_state(const StateDict& state) {
  constexpr std::string_view moments[] = {".first_moment", ".second_moment"};
  std::vector<std::string> used;
  std::vector<detail::Slot> loaded = slots_;
  for (detail::Slot& slot : loaded) {
    const std::string& name = slot.parameter.name;
    slot.steps = 0;
    slot.live = slot.first = slot.second = Tensor();
    const auto is_named = [&](std::string_view end) {
      return state.find(std::string(name).append(end)) != nullptr;
    };
    if (!is_named(".steps") && !is_named(moments[0]) && !is_named(moments[1])) continue;
    slot.steps = steps_of(entry(state, name + ".steps", used), name);
    for (std::size_t i = 0; i < moments_of(slot); ++i)
      (i == 0 ? slot.first : slot.second) =
          copy_moment(entry(state, std::string(name).append(moments[i]), used),
                      std::string(name).append(moments[i]), slot, i);
  }
  for (const auto& [name, tensor] : state)
    if (std::find(used.begin(), used.end(), name) == used.end())
      fail(error_id::extra_name, "Optimizer::load_state", "state", soma::quoted(name),
           "the names of this optimizer's states");
  slots_ = std::move(loaded);
}

SOMA_INLINE Optimizer::Optimizer(Context& context, const std::vector<Group>& groups,
                                 const StepStorage& storage)
    : context_(context), slots_(detail::make_slots(groups)), state_dtype_(storage.state) {
  if (slots_.empty())
    fail(error_id::operator_value, "Optimizer", "parameters",
         std::any_of(groups.begin(), groups.end(),
                     [](const Group& group) { return !group.parameters.empty(); })
             ? "frozen ones only"
             : "none",
         "at least one");
  check_random_bits("Optimizer", "weight_rounding.random_bits", storage.weight_rounding);
  check_random_bits("Optimizer", "state_rounding.random_bits", storage.state_rounding);
  for (const Rounding& rounding : {storage.weight_rounding, storage.state_rounding}) {
    if (rounding.mode != RoundingMode::stochastic || rounding.draws == DrawMapping::automatic)
      continue;
    if (chosen_ && mapping_ != rounding.draws)
      fail(error_id::operator_value, "Optimizer", "state_rounding.draws", to_string(rounding.draws),
           std::string(to_string(mapping_)) + ", as weight_rounding has");
    mapping_ = rounding.draws;
    chosen_ = true;
  }
}

SOMA_INLINE std::uint64_t Optimizer::state_bytes(std::string_view parameter) const {
  std::uint64_t bytes = 0;
  for (const detail::Slot& slot : slots_)
    if (slot.parameter.name == parameter)
      for (std::size_t i = 0; i < moments_of(slot); ++i)
        bytes += moment_shape(slot, i).elements() * size_of(state_dtype_);
  return bytes;
}

SOMA_INLINE std::size_t Optimizer::moments_of(const detail::Slot&) const { return moments(); }

SOMA_INLINE Shape Optimizer::moment_shape(const detail::Slot& slot, std::size_t) const {
  return slot.parameter.value().shape();
}

SOMA_INLINE void Optimizer::check_gradients(const Step& step) const {
  if (step.may_be_empty) return;
  for (const detail::Slot& slot : slots_)
    if (slot.parameter.gradient().defined()) return;
  fail(error_id::operator_value, "Optimizer::step", "gradients",
       "none in " + std::to_string(slots_.size()) + " parameters",
       "at least one: backward comes before a step, clear_gradients after it");
}

SOMA_INLINE void Optimizer::describe_storage(Record& record, const StepStorage& storage) const {
  record.set("optimizer.state", to_string(storage.state));
  record.set("optimizer.state_rounding", to_string(storage.state_rounding.mode));
  record.set("optimizer.weight_rounding", to_string(storage.weight_rounding.mode));
  record.set("optimizer.seed", storage.seed);
  // Runs with the first mapping record nothing, as before there was a second one.
  for (const Rounding& rounding : {storage.weight_rounding, storage.state_rounding})
    if (rounding.mode == RoundingMode::stochastic && mapping_ == DrawMapping::ars)
      record.set(mapping_entry, to_string(mapping_));
}

SOMA_INLINE Rounding Optimizer::drawn(Rounding rounding) const {
  if (rounding.mode == RoundingMode::stochastic) rounding.draws = mapping_;
  return rounding;
}

SOMA_INLINE void Optimizer::describe_groups(Record& record) const {
  std::string decays, rates;
  for (const detail::Slot& slot : slots_) {
    const std::string decay = to_text(static_cast<double>(slot.weight_decay));
    const std::string rate = to_text(static_cast<double>(slot.rate_factor));
    if (decays.find(decay) == decays.npos) decays.append(decays.empty() ? "" : " ").append(decay);
    if (rates.find(rate) == rates.npos) rates.append(rates.empty() ? "" : " ").append(rate);
  }
  record.set("optimizer.weight_decay", decays);
  record.set("optimizer.rate_factor", rates);
}

SOMA_INLINE void Optimizer::check(const std::string& name, const Tensor& given, const Shape& shape,
                                  DType dtype) {
  if (given.shape() != shape)
    fail(error_id::state_shape, "Optimizer::load_state", soma::quoted(name), given.describe(),
         to_string(shape));
  if (given.dtype() != dtype)
    fail(error_id::state_dtype, "Optimizer::load_state", soma::quoted(name), given.describe(),
         to_string(dtype));
}

SOMA_INLINE const Tensor& Optimizer::entry(const StateDict& state, std::string name,
                                           std::vector<std::string>& used) {
  const Tensor* found = state.find(name);
  if (found == nullptr)
    fail(error_id::missing_name, "Optimizer::load_state", soma::quoted(name), "not there",
         "an entry beside the others of its parameter");
  used.push_back(std::move(name));
  return *found;
}

SOMA_INLINE std::uint64_t Optimizer::steps_of(const Tensor& steps, const std::string& parameter) {
  const std::string name = parameter + ".steps";
  check(name, steps, Shape{}, DType::int64);
  const std::int64_t number = *steps.data<std::int64_t>();
  if (number < 1)
    fail(error_id::operator_value, "Optimizer::load_state", soma::quoted(name),
         std::to_string(number), "at least 1");
  return static_cast<std::uint64_t>(number);
}

SOMA_INLINE Tensor Optimizer::copy_moment(const Tensor& saved, const std::string& name,
                                          const detail::Slot& slot, std::size_t moment) const {
  const Shape shape = moment_shape(slot, moment);
  // A scalar comes back as one row if ranks shared it (Slot::rows_of).
  const bool as_row = shape.rank() == 0 && saved.shape() == Shape{1};
  const Tensor whole = as_row ? saved.reshape(shape) : saved;
  check(name, whole, shape, state_dtype_);
  return clone(context_, slot.rows_of(whole));
}

}  // namespace SOMA_NAMESPACE::optim
