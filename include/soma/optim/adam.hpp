#pragma once
// Adam (arXiv 1412.6980), with weight decay that is added to the gradient. AdamW keeps weight decay
// apart from the gradient, and is the better choice where weights decay.

#include <soma/optim/adamw.hpp>
#include <soma/optim/optimizer.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace soma::optim {

// Takes the options of AdamW. Without weight decay its steps equal AdamW's to the bit.
class Adam final : public Optimizer {
 public:
  Adam(Context& context, const std::vector<Group>& groups, const AdamWOptions& options = {})
      : Optimizer(context, groups, options.storage), options_(options) {
    detail::check_beta("beta1", options.beta1);
    detail::check_beta("beta2", options.beta2);
    detail::check_not_negative("epsilon", options.epsilon);
  }
  Adam(Context& context, Parameters parameters, float weight_decay = 0,
       const AdamWOptions& options = {})
      : Adam(
            context,
            std::vector<Group>{{.parameters = std::move(parameters), .weight_decay = weight_decay}},
            options) {}

  void describe(Record& record) const override {
    record.set("optimizer", "adam");
    record.set("optimizer.beta1", options_.beta1);
    record.set("optimizer.beta2", options_.beta2);
    record.set("optimizer.epsilon", options_.epsilon);
    describe_groups(record);
    describe_storage(record, options_.storage);
  }
  bool steps_rows_alone() const override { return true; }

  // Updates the parameters that have a gradient; gradients stay.
  void step(const Step& step) override {
    detail::check_step(step);
    check_gradients();
    const FloatEnvironment environment;
    for (detail::Slot& slot : slots_) {
      const Gradient gradient = slot.parameter.gradient();
      if (!gradient.defined()) continue;
      const Tensor weight = slot.rows_of(slot.parameter.value());
      detail::ensure_state(context_, slot.first, slot, options_.storage.state);
      detail::ensure_state(context_, slot.second, slot, options_.storage.state);
      AdamSetting setting = detail::adam_setting(slot, step, options_);
      setting.weight = drawn(options_.storage.weight_rounding);
      setting.state = drawn(options_.storage.state_rounding);
      setting.coupled_decay = slot.weight_decay;
      if (weight.elements() != 0)
        run(context_, *context_.built_in().adam_step, setting,
            {weight, gradient.values, gradient.rows, slot.first, slot.second});
      ++slot.steps;
    }
  }

 private:
  std::size_t moments() const override { return 2; }

  AdamWOptions options_;
};

}  // namespace soma::optim
