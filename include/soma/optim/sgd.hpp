#pragma once
// Stochastic gradient descent with momentum, Nesterov's too.

#include <soma/optim/optimizer.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace soma::optim {

struct SgdOptions {
  float momentum = 0, dampening = 0;
  bool nesterov = false;
  StepStorage storage{};
};

class Sgd final : public Optimizer {
 public:
  Sgd(Context& context, const std::vector<Group>& groups, const SgdOptions& options = {})
      : Optimizer(context, groups, options.storage), options_(options) {
    detail::check_not_negative("momentum", static_cast<double>(options.momentum));
    detail::check_finite("dampening", static_cast<double>(options.dampening));
  }
  Sgd(Context& context, Parameters parameters, const SgdOptions& options = {})
      : Sgd(context, {Group{.parameters = std::move(parameters)}}, options) {}

  void describe(Record& record) const override {
    record.set("optimizer", "sgd");
    record.set("optimizer.momentum", static_cast<double>(options_.momentum));
    record.set("optimizer.dampening", static_cast<double>(options_.dampening));
    record.set("optimizer.nesterov", options_.nesterov);
    describe_groups(record);
    describe_storage(record, options_.storage);
  }
  bool steps_rows_alone() const override { return true; }

  // Updates the parameters that have a gradient; gradients stay.
  void step(const Step& step) override {
    detail::check_step(step);
    check_gradients();
    for (detail::Slot& slot : slots_) {
      const Gradient gradient = slot.parameter.gradient();
      if (!gradient.defined()) continue;
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

 private:
  std::size_t moments() const override { return options_.momentum != 0 ? 1 : 0; }

  SgdOptions options_;
};

}  // namespace soma::optim
