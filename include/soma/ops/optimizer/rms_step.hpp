#pragma once
// The step of RMSprop and Adagrad (RmsArgs): an operator without outputs, which writes its inputs,
// as in optimizer_steps.hpp.

#include <soma/ops/optimizer/optimizer_steps.hpp>
#include <soma/ops/optimizer/settings.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

namespace detail {

inline void rms_shape(const ShapeCall& call) {
  call.attributes.as<RmsSetting>().momentum != 0 ? step_shape<RmsSetting, 2>(call)
                                                 : step_shape<RmsSetting, 1>(call);
}

inline void rms_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<RmsSetting>();
  const Tensor &weight = call.inputs[0], &squares = call.inputs[3];
  const Tensor momentum = setting.momentum != 0 ? call.inputs[4] : Tensor();
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

// Inputs weight, gradient values, gradient rows (optional), squares, momentum (optional).
inline constexpr Operator rms_step{.name = "rms step",
                                   .min_inputs = 2,
                                   .max_inputs = 5,
                                   .outputs = 0,
                                   .shape = &detail::rms_shape,
                                   .host = &detail::rms_host};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
