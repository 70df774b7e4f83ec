#pragma once
// Optimizers for parameters of which each step touches few rows: a step costs what the rows with a
// gradient cost, however many rows there are. Parameters and states are fp32.
//
// A dense gradient touches all rows. Weight decay would have to touch all rows as well, so groups
// with weight_decay are refused. Needs add_sparse(context) (soma/sparse.hpp).

#include <soma/ops/ranges.hpp>
#include <soma/ops/sparse/table.hpp>
#include <soma/optim/optimizer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace soma::optim {

// The base class of row optimizers. Their states have names and shapes of their own, so it
// overrides state() and load_state().
class RowOptimizer : public Optimizer {
 public:
  void describe(Record& record) const final {
    record.set("optimizer", std::string(name_));
    describe_own(record);
    describe_groups(record);
  }

  void step(const Step& step) final {
    detail::check_step(step);
    check_gradients();
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

  // The states of each parameter that has been stepped: "<name>.steps", and the states named by
  // state_names().
  StateDict state() const final {
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
  void load_state(const StateDict& state) final {
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

 protected:
  RowOptimizer(Context& context, const std::vector<Group>& groups, std::string_view name,
               std::vector<std::string> state_names, bool state_of_rows)
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

 private:
  virtual void describe_own(Record& record) const = 0;
  virtual const Operator& operator_of(const SparseOperators& operators) const = 0;
  // Fills in `setting` for a step with this learning rate, after `steps` earlier steps.
  virtual void complete(RowStepSetting& setting, double rate, std::uint64_t steps) const = 0;

  Shape state_shape(const detail::Slot& slot) const {
    const Shape shape = slot.parameter.value().shape();
    return state_of_rows_ ? shape : Shape{shape[0]};
  }
  void make_states(detail::Slot& slot) const {
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
  const Tensor& entry(const StateDict& state, const std::string& name, const Shape& shape,
                      DType dtype) const {
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
  static std::uint64_t steps_in(const Tensor& steps, const std::string& parameter) {
    const std::int64_t number = *steps.data<std::int64_t>();
    if (number < 1)
      fail(error_id::operator_value, "Optimizer::load_state", soma::quoted(parameter + ".steps"),
           std::to_string(number), "at least 1");
    return static_cast<std::uint64_t>(number);
  }
  [[noreturn]] void refuse_extra(const StateDict& state) const {
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

  std::string_view name_;
  std::vector<std::string> state_names_;
  bool state_of_rows_;
};

// w -= rate * g for the rows that have a gradient. No states.
class RowSgd final : public RowOptimizer {
 public:
  RowSgd(Context& context, const std::vector<Group>& groups)
      : RowOptimizer(context, groups, "row_sgd", {}, false) {}
  RowSgd(Context& context, Parameters parameters)
      : RowSgd(context, {Group{.parameters = std::move(parameters)}}) {}

 private:
  void describe_own(Record&) const override {}
  const Operator& operator_of(const SparseOperators& operators) const override {
    return *operators.row_sgd_step;
  }
  void complete(RowStepSetting&, double, std::uint64_t) const override {}
};

struct RowAdagradOptions {
  double epsilon = 1e-10;
};

// Adagrad (Duchi, Hazan and Singer 2011) with one sum of squares for each row, of the means of the
// squares of its gradients: w -= rate * g / (sqrt(sum) + epsilon). The state is 4 bytes a row.
class RowAdagrad final : public RowOptimizer {
 public:
  RowAdagrad(Context& context, const std::vector<Group>& groups,
             const RowAdagradOptions& options = {})
      : RowOptimizer(context, groups, "row_adagrad", {".squares"}, false), options_(options) {
    detail::check_not_negative("epsilon", options.epsilon);
  }
  RowAdagrad(Context& context, Parameters parameters, const RowAdagradOptions& options = {})
      : RowAdagrad(context, {Group{.parameters = std::move(parameters)}}, options) {}

 private:
  void describe_own(Record& record) const override {
    record.set("optimizer.epsilon", options_.epsilon);
  }
  const Operator& operator_of(const SparseOperators& operators) const override {
    return *operators.row_adagrad_step;
  }
  void complete(RowStepSetting& setting, double, std::uint64_t) const override {
    setting.epsilon = static_cast<float>(options_.epsilon);
  }

  RowAdagradOptions options_;
};

struct RowAdamOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};

// Adam (arXiv 1412.6980) over touched rows: moments of other rows do not decay, and the bias
// corrections are those of the step's number. So a row that is touched rarely keeps old moments
// longer than in dense Adam.
class RowAdam final : public RowOptimizer {
 public:
  RowAdam(Context& context, const std::vector<Group>& groups, const RowAdamOptions& options = {})
      : RowOptimizer(context, groups, "row_adam", {".first_moment", ".second_moment"}, true),
        options_(options) {
    detail::check_beta("beta1", options.beta1);
    detail::check_beta("beta2", options.beta2);
    detail::check_not_negative("epsilon", options.epsilon);
  }
  RowAdam(Context& context, Parameters parameters, const RowAdamOptions& options = {})
      : RowAdam(context, {Group{.parameters = std::move(parameters)}}, options) {}

 private:
  void describe_own(Record& record) const override {
    record.set("optimizer.beta1", options_.beta1);
    record.set("optimizer.beta2", options_.beta2);
    record.set("optimizer.epsilon", options_.epsilon);
  }
  const Operator& operator_of(const SparseOperators& operators) const override {
    return *operators.row_adam_step;
  }
  void complete(RowStepSetting& setting, double rate, std::uint64_t steps) const override {
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

  RowAdamOptions options_;
};

}  // namespace soma::optim
