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

namespace SOMA_NAMESPACE::optim {

// Parameters with the same settings.
struct Group {
  Parameters parameters;
  float weight_decay = 0;
  float rate_factor = 1;  // multiplies the optimizer's learning rate
};
void fields(FieldVisitor& visitor, Group& group);

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
std::vector<Group> decay_groups(const Parameters& parameters, float weight_decay);

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
  // True: other processes of the run have gradients, so that this one may have none: its stage of a
  // pipeline may have no parameters. Else a step without any gradient is refused.
  bool may_be_empty = false;
};
void fields(FieldVisitor& visitor, Step& step);

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
  Tensor rows_of(const Tensor& tensor) const;
};

// Keeps a parameter's resting row over a step: put back at the end of the scope. Costs nothing
// where there is none.
class RestingRow {
 public:
  RestingRow(Context& context, const Slot& slot);
  ~RestingRow();
  RestingRow(const RestingRow&) = delete;
  RestingRow& operator=(const RestingRow&) = delete;

 private:
  Tensor row_{}, kept_{};
};

// A variable, or some of its rows, that is listed twice would take two steps at once.
void check_new(const std::vector<Slot>& before, const Parameter& parameter);

std::vector<Slot> make_slots(const std::vector<Group>& groups);

// A learning rate that is NaN or below 0 would spoil all weights at once. Error operator.value.
void check_step(const Step& step);

void ensure_state(Context& context, Tensor& state, const Slot& slot, DType dtype);

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
  void keep_mapping(const Record& described);
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
  SOMA_INLINE virtual StateDict state() const;
  // The bytes that state() will have for a parameter that is stepped: of all its rows, without the
  // number of its steps. 0: the optimizer does not step it.
  std::uint64_t state_bytes(std::string_view parameter) const;
  // Copies states of whole parameters; a parameter without an entry starts anew. Each entry has to
  // be one that state() would return. Errors by the entry's name: state.missing_name,
  // state.extra_name, state.shape, state.dtype, operator.value (an invalid number of steps);
  // nothing is copied then.
  SOMA_INLINE virtual void load_state(const StateDict& state);

 protected:
  // Errors tensor.undefined (a variable), operator.value (no parameters, a variable that is listed
  // twice, a setting, two mappings of draws), rounding.random_bits.
  Optimizer(Context& context, const std::vector<Group>& groups, const StepStorage& storage);
  // The number of moments, at most two, of a parameter that has been stepped.
  virtual std::size_t moments() const { return 0; }
  // The number of moments of one parameter, and their shapes, where they differ from the
  // parameter's.
  SOMA_INLINE virtual std::size_t moments_of(const detail::Slot&) const;
  SOMA_INLINE virtual Shape moment_shape(const detail::Slot& slot, std::size_t) const;
  // Error operator.value: backward has left no gradient in any parameter, and the step does not say
  // that other processes have some. To be called by step().
  void check_gradients(const Step& step = {}) const;

  // Part of describe(): the storage of weights and states.
  void describe_storage(Record& record, const StepStorage& storage) const;
  // The rounding of a step: the mapping of its draws is no longer automatic.
  Rounding drawn(Rounding rounding) const;
  // Part of describe(): the weight decay and the rate factor of each parameter.
  void describe_groups(Record& record) const;
  Context& context_;
  std::vector<detail::Slot> slots_;

 private:
  static void check(const std::string& name, const Tensor& given, const Shape& shape, DType dtype);
  static const Tensor& entry(const StateDict& state, std::string name,
                             std::vector<std::string>& used);
  static std::uint64_t steps_of(const Tensor& steps, const std::string& parameter);
  Tensor copy_moment(const Tensor& saved, const std::string& name, const detail::Slot& slot,
                     std::size_t moment) const;
  static constexpr std::string_view mapping_entry = "optimizer.draws";
  DType state_dtype_;
  DrawMapping mapping_ = DrawMapping::ars;  // of all draws
  bool chosen_ = false;                     // by a rounding
};

}  // namespace SOMA_NAMESPACE::optim

#ifndef SOMA_DISPATCH
#include <soma/optim/impl/optimizer.ipp>
#endif
