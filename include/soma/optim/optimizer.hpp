#pragma once
// Parts that optimizers share: groups of parameters, states stored in a type of their own, and the
// draws of stochastic rounding.

#include <soma/autograd/parameter.hpp>
#include <soma/base/record.hpp>
#include <soma/numeric/portable_math.hpp>
#include <soma/ops/built_in.hpp>
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

namespace soma::optim {

// Parameters with the same settings.
struct Group {
  Parameters parameters;
  float weight_decay = 0;
  float rate_factor = 1;  // multiplies the optimizer's learning rate
};

// Two groups: the parameters that decays(parameter) chooses with weight decay, the others without.
template <class Decays>
std::vector<Group> decay_groups(const Parameters& parameters, float weight_decay,
                                const Decays& decays) {
  std::vector<Group> groups(2);
  groups[0].weight_decay = weight_decay;
  for (const Parameter& parameter : parameters)
    groups[decays(parameter) ? 0 : 1].parameters.push_back(parameter);
  return groups;
}
// The usual two groups: each parameter says by its kind (Parameter::decays) if it decays; names
// play no role.
inline std::vector<Group> decay_groups(const Parameters& parameters, float weight_decay) {
  return decay_groups(parameters, weight_decay,
                      [](const Parameter& parameter) { return parameter.decays(); });
}

// How states are stored, and how stored numbers are rounded when a step writes them. Stochastic
// draws are keyed by seed, the parameter's name, the number of the step, and row and column. Those
// whose mapping is automatic (Rounding::draws) have the second one, except in a run that goes on
// from a checkpoint of the first (Optimizer::keep_mapping()); both roundings have the same.
struct StepStorage {
  DType state = DType::fp32;
  Rounding state_rounding{};
  Rounding weight_rounding{};  // for parameters that are not fp32
  std::uint64_t seed = 0;
};

// The arguments of one call of step().
struct Step {
  double rate = 0;
  // Multiplies gradients as they are read: clipping, 1 / loss scale, 1 / gradient accumulation
  // steps.
  float gradient_factor = 1;
};

namespace detail {

// A parameter with its states; a parameter that never had a gradient has no states.
struct Slot {
  Parameter parameter;
  float weight_decay, rate_factor;
  std::uint32_t stream;
  std::uint64_t steps = 0;
  Tensor first{}, second{};  // for the rows that are stepped here
  Tensor live{};             // marks of these rows (AdamW); not defined: not made since states were
                             // set
  std::size_t first_row = 0, last_row = to_end;

  bool whole() const { return first_row == 0 && last_row == to_end; }
  // A view of the rows that are stepped here.
  Tensor rows_of(const Tensor& tensor) const {
    if (whole()) return tensor;
    // A tensor of rank 0 counts as one row.
    return (tensor.rank() == 0 ? tensor.reshape(Shape{1}) : tensor).slice(0, first_row, last_row);
  }
};

// Settings out of their range would turn weights into NaN. Error operator.value.
inline void check_setting(bool in_range, std::string_view name, double value,
                          std::string_view wanted) {
  if (!in_range) fail(error_id::operator_value, "Optimizer", name, std::to_string(value), wanted);
}
inline void check_beta(std::string_view name, double beta) {
  check_setting(beta >= 0 && beta < 1, name, beta, "0 to below 1");
}
inline void check_not_negative(std::string_view name, double value) {
  check_setting(value >= 0 && std::isfinite(value), name, value, "a finite number, at least 0");
}
inline void check_finite(std::string_view name, double value) {
  check_setting(std::isfinite(value), name, value, "a finite number");
}

// A variable, or some of its rows, that is listed twice would take two steps at once.
inline void check_new(const std::vector<Slot>& before, const Parameter& parameter) {
  for (const Slot& slot : before) {
    const Parameter& other = slot.parameter;
    if (other.var.is(parameter.var) && parameter.first_row < other.last_row &&
        other.first_row < parameter.last_row)
      fail(error_id::operator_value, "Optimizer", soma::quoted(parameter.name),
           "of the variable of " + soma::quoted(other.name), "each variable once");
  }
}

inline std::vector<Slot> make_slots(const std::vector<Group>& groups) {
  std::vector<Slot> made;
  for (const Group& group : groups) {
    check_not_negative("weight_decay", static_cast<double>(group.weight_decay));
    check_finite("rate_factor", static_cast<double>(group.rate_factor));
    for (const Parameter& parameter : group.parameters) {
      if (!parameter.var.defined())
        fail(error_id::tensor_undefined, "Optimizer", soma::quoted(parameter.name),
             "a variable that is not defined", "a parameter");
      check_new(made, parameter);
      made.push_back({parameter, group.weight_decay, group.rate_factor,
                      stream_id(parameter.name, "optimizer")});
    }
  }
  return made;
}

// A learning rate that is NaN or below 0 would spoil all weights at once. Error operator.value.
inline void check_step(const Step& step) { check_not_negative("rate", step.rate); }

inline void ensure_state(Context& context, Tensor& state, const Slot& slot, DType dtype) {
  if (!state.defined())
    state = Tensor::zeros(context, slot.rows_of(slot.parameter.value()).shape(), dtype);
}

}  // namespace detail

// The base class of all optimizers: slots, and states that can be saved.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates the parameters that have a gradient; gradients stay.
  virtual void step(const Step& step) = 0;

  // Completes the work that steps have postponed. Call it before parameters are evaluated or saved.
  virtual void settle() {}

  // Records the optimizer's name and settings, which decide its steps beside gradients. A run is
  // resumed with the same values only, and all ranks must have the same values.
  virtual void describe(Record& record) const = 0;
  // True if the step of a row depends on that row's gradient and states alone, so that ranks can
  // share the rows of a parameter (keep_rows()). Norms of whole parameters make that impossible.
  virtual bool steps_rows_alone() const { return false; }
  // For a resumed run: `described` is the record of describe() in its checkpoint. Draws whose
  // mapping is automatic keep the mapping of that run.
  void keep_mapping(const Record& described) {
    if (!chosen_)
      mapping_ = described.contains(mapping_entry) ? DrawMapping::ars : DrawMapping::philox;
  }
  // From now on, each parameter has steps, states and gradients (Gradient::first_row) only for the
  // rows {begin, end} that rows_of(parameter) returns. Call it before the first step. Error
  // operator.value: an optimizer whose rows are not stepped alone.
  template <class RowsOf>
  void keep_rows(const RowsOf& rows_of) {
    if (!steps_rows_alone())
      fail(error_id::operator_value, "Optimizer::keep_rows", "optimizer",
           "an optimizer that needs whole parameters",
           "an optimizer that steps rows alone (steps_rows_alone())");
    for (detail::Slot& slot : slots_) {
      const auto [begin, end] = rows_of(slot.parameter);
      slot.first_row = begin;
      slot.last_row = end;
    }
  }

  // The states of each parameter that has been stepped: "<name>.steps" (int64, one element), and
  // its moments "<name>.first_moment" and "<name>.second_moment" if it has them. The tensors are
  // shared and read-only: return changed tensors through load_state(). If an optimizer keeps some
  // rows only, its states cover these rows. An optimizer with other states than these two moments
  // overrides both functions.
  virtual StateDict state() const {
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
  // Copies states of whole parameters; a parameter without an entry starts anew. Each entry has to
  // be one that state() would return. Errors by the entry's name: state.missing_name,
  // state.extra_name, state.shape, state.dtype, operator.value (an invalid number of steps);
  // nothing is copied then.
  virtual void load_state(const StateDict& state) {
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

 protected:
  // Errors tensor.undefined (a variable), operator.value (no parameters, a variable that is listed
  // twice, a setting, two mappings of draws), rounding.random_bits.
  Optimizer(Context& context, const std::vector<Group>& groups, const StepStorage& storage)
      : context_(context), slots_(detail::make_slots(groups)), state_dtype_(storage.state) {
    if (slots_.empty())
      fail(error_id::operator_value, "Optimizer", "parameters", "none", "at least one");
    check_random_bits("Optimizer", "weight_rounding.random_bits", storage.weight_rounding);
    check_random_bits("Optimizer", "state_rounding.random_bits", storage.state_rounding);
    for (const Rounding& rounding : {storage.weight_rounding, storage.state_rounding}) {
      if (rounding.mode != RoundingMode::stochastic || rounding.draws == DrawMapping::automatic)
        continue;
      if (chosen_ && mapping_ != rounding.draws)
        fail(error_id::operator_value, "Optimizer", "state_rounding.draws",
             to_string(rounding.draws),
             std::string(to_string(mapping_)) + ", as weight_rounding has");
      mapping_ = rounding.draws;
      chosen_ = true;
    }
  }
  // The number of moments, at most two, of a parameter that has been stepped.
  virtual std::size_t moments() const { return 0; }
  // The number of moments of one parameter, and their shapes, where they differ from the
  // parameter's.
  virtual std::size_t moments_of(const detail::Slot&) const { return moments(); }
  virtual Shape moment_shape(const detail::Slot& slot, std::size_t) const {
    return slot.parameter.value().shape();
  }
  // Error operator.value: backward has left no gradient in any parameter. To be called by step().
  void check_gradients() const {
    for (const detail::Slot& slot : slots_)
      if (slot.parameter.gradient().defined()) return;
    fail(error_id::operator_value, "Optimizer::step", "gradients",
         "none in " + std::to_string(slots_.size()) + " parameters",
         "at least one: backward comes before a step, clear_gradients after it");
  }

  // Part of describe(): the storage of weights and states.
  void describe_storage(Record& record, const StepStorage& storage) const {
    record.set("optimizer.state", to_string(storage.state));
    record.set("optimizer.state_rounding", to_string(storage.state_rounding.mode));
    record.set("optimizer.weight_rounding", to_string(storage.weight_rounding.mode));
    record.set("optimizer.seed", storage.seed);
    // Runs with the first mapping record nothing, as before there was a second one.
    for (const Rounding& rounding : {storage.weight_rounding, storage.state_rounding})
      if (rounding.mode == RoundingMode::stochastic && mapping_ == DrawMapping::ars)
        record.set(mapping_entry, to_string(mapping_));
  }
  // The rounding of a step: the mapping of its draws is no longer automatic.
  Rounding drawn(Rounding rounding) const {
    if (rounding.mode == RoundingMode::stochastic) rounding.draws = mapping_;
    return rounding;
  }
  // Part of describe(): the weight decay and the rate factor of each parameter.
  void describe_groups(Record& record) const {
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
  Context& context_;
  std::vector<detail::Slot> slots_;

 private:
  static void check(const std::string& name, const Tensor& given, const Shape& shape, DType dtype) {
    if (given.shape() != shape)
      fail(error_id::state_shape, "Optimizer::load_state", soma::quoted(name), given.describe(),
           to_string(shape));
    if (given.dtype() != dtype)
      fail(error_id::state_dtype, "Optimizer::load_state", soma::quoted(name), given.describe(),
           to_string(dtype));
  }
  static const Tensor& entry(const StateDict& state, std::string name,
                             std::vector<std::string>& used) {
    const Tensor* found = state.find(name);
    if (found == nullptr)
      fail(error_id::missing_name, "Optimizer::load_state", soma::quoted(name), "not there",
           "an entry beside the others of its parameter");
    used.push_back(std::move(name));
    return *found;
  }
  static std::uint64_t steps_of(const Tensor& steps, const std::string& parameter) {
    const std::string name = parameter + ".steps";
    check(name, steps, Shape{}, DType::int64);
    const std::int64_t number = *steps.data<std::int64_t>();
    if (number < 1)
      fail(error_id::operator_value, "Optimizer::load_state", soma::quoted(name),
           std::to_string(number), "at least 1");
    return static_cast<std::uint64_t>(number);
  }
  Tensor copy_moment(const Tensor& saved, const std::string& name, const detail::Slot& slot,
                     std::size_t moment) const {
    const Shape shape = moment_shape(slot, moment);
    // A scalar comes back as one row if ranks shared it (Slot::rows_of).
    const bool as_row = shape.rank() == 0 && saved.shape() == Shape{1};
    const Tensor whole = as_row ? saved.reshape(shape) : saved;
    check(name, whole, shape, state_dtype_);
    return clone(context_, slot.rows_of(whole));
  }
  static constexpr std::string_view mapping_entry = "optimizer.draws";
  DType state_dtype_;
  DrawMapping mapping_ = DrawMapping::ars;  // of all draws
  bool chosen_ = false;                     // by a rounding
};

}  // namespace soma::optim
