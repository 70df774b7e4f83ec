#pragma once
// The step of RMSprop, Adagrad and Adadelta (RmsArgs): an operator without outputs, which writes
// its inputs, as in optimizer_steps.hpp.

#include <soma/ops/optimizer/optimizer_steps.hpp>
#include <soma/ops/optimizer/settings.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

namespace detail {

// Momentum, or Adadelta's squares of steps.
inline bool has_second_state(const RmsSetting& setting) {
  return setting.momentum != 0 || setting.step_squares;
}

inline void rms_shape(const ShapeCall& call) {
  has_second_state(call.attributes.as<RmsSetting>()) ? step_shape<RmsSetting, 2>(call)
                                                     : step_shape<RmsSetting, 1>(call);
}

inline void rms_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<RmsSetting>();
  const Tensor &weight = call.inputs[0], &squares = call.inputs[3];
  const Tensor momentum = has_second_state(setting) ? call.inputs[4] : Tensor();
  std::byte *weights = weight.mutable_raw(), *seconds = squares.mutable_raw();
  std::byte* momenta = momentum.defined() ? momentum.mutable_raw() : nullptr;
  for_step_runs(call, setting, [&](const StepRun& run) {
    RmsArgs args{.rows = run.rows};
    args.weight = state_run(weight, weights, setting.weight, setting, StepSite::weight, run);
    args.v = state_run(squares, seconds, setting.state, setting, StepSite::second, run);
    if (momenta != nullptr)
      args.momentum_state =
          state_run(momentum, momenta, setting.state, setting, StepSite::first, run);
    args.gradient = run.gradient;
    args.step_squares = setting.step_squares;
    args.rate = setting.rate;
    args.keep = setting.keep;
    args.add = setting.add;
    args.epsilon = setting.epsilon;
    args.momentum = setting.momentum;
    args.weight_decay = setting.weight_decay;
    call.context.kernels().optimizer.rms(args);
  });
}

}  // namespace detail

namespace ops {

// Inputs weight, gradient values, gradient rows (optional), squares, second state (optional).
inline constexpr Operator rms_step{.name = "rms step",
                                   .min_inputs = 2,
                                   .max_inputs = 5,
                                   .outputs = 0,
                                   .shape = &detail::rms_shape,
                                   .host = &detail::rms_host};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
