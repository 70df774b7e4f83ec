#pragma once
// Adafactor (arXiv 1804.04235), as torch.optim.Adafactor: for a matrix it stores only the means of
// squared gradients by rows and by columns, and its steps are relative to the size of the weights.
// Formulas: ops/optimizer/adafactor_step.hpp.

#include <soma/ops/basic.hpp>
#include <soma/optim/optimizer.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace soma::optim {

struct AdafactorOptions {
  double beta2_decay = -0.8;   // step t replaces a share t^beta2_decay of the stored means
  double floor = 0x1p-23;      // epsilon 1 of PyTorch: least mean of squares, and least root
  double least_scale = 1e-3;   // epsilon 2: least root mean square of weights
  double clip = 1;             // largest root mean square of an update, before rate and scale
  Rounding weight_rounding{};  // for parameters that are not fp32
  std::uint64_t seed = 0;      // for stochastic rounding
};

// States are fp32: a parameter [..., R, C] has R + C numbers for each matrix.
class Adafactor final : public Optimizer {
 public:
  Adafactor(Context& context, const std::vector<Group>& groups,
            const AdafactorOptions& options = {})
      : Optimizer(context, groups, storage_of(options)), options_(options) {
    detail::check_setting(options.beta2_decay <= 0 && std::isfinite(options.beta2_decay),
                          "beta2_decay", options.beta2_decay, "a finite number, at most 0");
    detail::check_not_negative("floor", options.floor);
    detail::check_not_negative("least_scale", options.least_scale);
    detail::check_setting(options.clip > 0 && std::isfinite(options.clip), "clip", options.clip,
                          "a finite number above 0");
  }
  Adafactor(Context& context, Parameters parameters, const AdafactorOptions& options = {})
      : Adafactor(context, {Group{.parameters = std::move(parameters)}}, options) {}

  void describe(Record& record) const override {
    record.set("optimizer", "adafactor");
    record.set("optimizer.beta2_decay", options_.beta2_decay);
    record.set("optimizer.floor", options_.floor);
    record.set("optimizer.least_scale", options_.least_scale);
    record.set("optimizer.clip", options_.clip);
    describe_groups(record);
    describe_storage(record, storage_of(options_));
  }

  // Updates the parameters that have a gradient; gradients stay. The learning rate of step t is at
  // most 1 / sqrt(t).
  void step(const Step& step) override {
    detail::check_step(step);
    check_gradients();
    const FloatEnvironment environment;
    for (detail::Slot& slot : slots_) {
      const Gradient gradient = slot.parameter.gradient();
      if (!gradient.defined()) continue;
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
        run(context_, *context_.built_in().basic->adafactor_step, setting,
            {weight, gradient.values, gradient.rows, slot.first, slot.second});
      ++slot.steps;
    }
  }

 private:
  static StepStorage storage_of(const AdafactorOptions& options) {
    return {.weight_rounding = options.weight_rounding, .seed = options.seed};
  }
  std::size_t moments() const override { return 2; }
  std::size_t moments_of(const detail::Slot& slot) const override {
    return slot.parameter.value().rank() > 1 ? 2 : 1;
  }
  // A matrix has one moment by rows and one by columns; a vector has the squares of its elements.
  Shape moment_shape(const detail::Slot& slot, std::size_t moment) const override {
    const Shape shape = slot.parameter.value().shape();
    if (shape.rank() < 2) return shape;
    std::size_t matrices = 1;
    for (std::size_t i = 0; i + 2 < shape.rank(); ++i) matrices *= shape[i];
    return {matrices, moment == 0 ? shape[shape.rank() - 2] : shape.columns()};
  }

  AdafactorOptions options_;
};

}  // namespace soma::optim
