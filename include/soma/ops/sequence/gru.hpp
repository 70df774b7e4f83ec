#pragma once
// One layer and direction of a GRU (arXiv 1406.1078) over the sequences of a batch, which may have
// different lengths. Input products are not included: x holds W_ih x + b_ih for all rows, from one
// earlier matrix product.
//
//   h = state W_hh^T + b_hh
//   r = sigmoid(x_r + h_r)    z = sigmoid(x_z + h_z)    n = tanh(x_n + r h_n)
//   state = (1 - z) n + z state
//
// Inputs:  x [rows, 3 H], gates side by side: reset, update, new; weight [3 H, H]; bias [3 H] or
//          left out; the states that sequences begin with, [sequences, H], or left out: zeros
// Outputs: the state after each row [rows, H]; the last state of each sequence [sequences, H], the
//          first one where it has no rows; what backward needs [rows, 5 H]
//
// The order of gates and the place of the reset gate are those of PyTorch (torch.nn.GRU) and cuDNN.
// States are fp32 between steps, and results are rounded once. With `reverse`, sequences run from
// their last row to their first.
//
// Errors tensor.rank, tensor.dtype, tensor.shape, operator.sequences.

#include <soma/ops/batch.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/product/linear.hpp>
#include <soma/ops/product/matmul.hpp>
#include <soma/ops/sequence/gradients.hpp>
#include <soma/ops/sequence/recurrent.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

namespace detail {

inline void gru_shape(const ShapeCall& call) {
  check_recurrent("gru", call, 3);
  const std::size_t rows = call.inputs[0].size(0), hidden = call.inputs[1].size(1);
  const DType dtype = call.inputs[0].dtype();
  call.outputs[0] = {Shape{rows, hidden}, dtype};
  call.outputs[1] = {Shape{call.sequences.count(), hidden}, dtype};
  call.outputs[2] = {Shape{rows, 5 * hidden}, DType::fp32};
}

inline void gru_steps(const OperatorCall& call) {
  Context& context = call.context;
  const Tensor &x = call.inputs[0], &weight = call.inputs[1], state = input_or_none(call.inputs, 3);
  const float* const bias = floats(input_or_none(call.inputs, 2));
  const std::size_t hidden = weight.size(1), gates = 3 * hidden;
  const StepPlan plan(context, call.sequences, call.attributes.as<RecurrentSetting>().reverse,
                      hidden * gates);
  const TensorRows weight_rows = rows_of(context, weight);
  const StepProduct product(context, transposed(operand(weight_rows)), hidden, gates, plan.most());
  const TaskRows memory(context, plan.tasks(), plan.most() * (hidden + gates),
                        product.workspace_bytes());
  float *const y = call.outputs[0].mutable_data<float>(),
               *const last = call.outputs[1].mutable_data<float>(),
               *const notes = call.outputs[2].mutable_data<float>();
  parallel(context, static_cast<int>(plan.tasks()), [&](int index) {
    const auto task = static_cast<std::size_t>(index);
    float *const states = memory.floats(task), *const h = states + plan.most() * hidden;
    for (std::size_t i = 0; i < plan.count(task); ++i)
      copy_state(state, plan.sequence(task, i), hidden, states + i * hidden);
    for (std::size_t step = 0; step < plan.longest(task); ++step) {
      const std::size_t alive = plan.alive(task, step);
      product.run(states, alive, h, bias, false, memory.workspace(task));
      for (std::size_t i = 0; i < alive; ++i) {
        const std::size_t row = plan.row(plan.sequence(task, i), step);
        context.kernels().sequence.gru({.hidden = hidden,
                                        .x = x.data<float>() + row * gates,
                                        .h = h + i * gates,
                                        .state = states + i * hidden,
                                        .y = y + row * hidden,
                                        .notes = notes + row * 5 * hidden});
      }
    }
    for (std::size_t i = 0; i < plan.count(task); ++i)
      std::memcpy(last + plan.sequence(task, i) * hidden, states + i * hidden,
                  hidden * sizeof(float));
  });
}
inline void gru_host(const OperatorCall& call) { with_plain_tensors(call, 0, &gru_steps); }

// Inputs: notes, weight, and the gradients of the first two outputs, or none. Outputs: dx [rows, 3
// H], the gradient of the hidden gates [rows, 3 H], and the gradient of the initial states
// [sequences, H].
inline void gru_backward_shape(const ShapeCall& call) {
  const std::size_t rows = call.inputs[0].size(0), hidden = call.inputs[1].size(1);
  call.outputs[0] = call.outputs[1] = {Shape{rows, 3 * hidden}, DType::fp32};
  call.outputs[2] = {Shape{call.sequences.count(), hidden}, DType::fp32};
}

inline void gru_backward_steps(const OperatorCall& call) {
  Context& context = call.context;
  const Tensor &notes = call.inputs[0], &weight = call.inputs[1],
               dy = input_or_none(call.inputs, 2), dlast = input_or_none(call.inputs, 3);
  const std::size_t hidden = weight.size(1), gates = 3 * hidden;
  const StepPlan plan(context, call.sequences, call.attributes.as<RecurrentSetting>().reverse,
                      hidden * gates);
  const TensorRows weight_rows = rows_of(context, weight);
  const StepProduct product(context, operand(weight_rows), gates, hidden, plan.most());
  const TaskRows memory(context, plan.tasks(), plan.most() * (hidden + gates) + hidden,
                        product.workspace_bytes());
  float *const dx = call.outputs[0].mutable_data<float>(),
               *const dh = call.outputs[1].mutable_data<float>(),
               *const dstate = call.outputs[2].mutable_data<float>();
  parallel(context, static_cast<int>(plan.tasks()), [&](int index) {
    const auto task = static_cast<std::size_t>(index);
    float *const states = memory.floats(task), *const work = states + plan.most() * hidden,
                 *const zeros = work + plan.most() * gates;
    std::fill_n(zeros, hidden, 0.0f);
    for (std::size_t i = 0; i < plan.count(task); ++i)
      copy_state(dlast, plan.sequence(task, i), hidden, states + i * hidden);
    for (std::size_t step = plan.longest(task); step-- > 0;) {
      const std::size_t alive = plan.alive(task, step);
      for (std::size_t i = 0; i < alive; ++i) {
        const std::size_t row = plan.row(plan.sequence(task, i), step);
        context.kernels().sequence.gru_backward(
            {.hidden = hidden,
             .notes = notes.data<float>() + row * 5 * hidden,
             .dy = dy.defined() ? dy.data<float>() + row * hidden : zeros,
             .dstate = states + i * hidden,
             .dx = dx + row * gates,
             .dh = dh + row * gates,
             .dh_too = work + i * gates});
      }
      product.run(work, alive, states, nullptr, true, memory.workspace(task));
    }
    for (std::size_t i = 0; i < plan.count(task); ++i)
      std::memcpy(dstate + plan.sequence(task, i) * hidden, states + i * hidden,
                  hidden * sizeof(float));
  });
}
inline void gru_backward_host(const OperatorCall& call) {
  with_plain_tensors(call, 0, &gru_backward_steps);
}

// The operations of x and the hidden gates (multiply-adds of the hidden gates only: x was computed
// before).
inline double gru_operations(const OperatorCall& call) {
  return 2.0 * static_cast<double>(call.inputs[0].size(0)) *
         static_cast<double>(call.inputs[1].elements());
}

inline void gru_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

inline constexpr Operator gru_backward{.name = "gru backward",
                                       .min_inputs = 2,
                                       .max_inputs = 4,
                                       .outputs = 3,
                                       .shape = &detail::gru_backward_shape,
                                       .host = &detail::gru_backward_host,
                                       .operations = &detail::gru_operations};

inline constexpr Operator gru{.name = "gru",
                              .min_inputs = 2,
                              .max_inputs = 4,
                              .outputs = 3,
                              .keeps_inputs = 2,
                              .keeps_outputs = 4,
                              .batch = &detail::batch_with_summaries,
                              .shape = &detail::gru_shape,
                              .host = &detail::gru_host,
                              .gradient = &detail::gru_gradient,
                              .wide_gradients = true,
                              .built_in_samples = true,
                              .operations = &detail::gru_operations};

}  // namespace ops

inline void detail::gru_gradient(const GradientCall& whole) {
  with_plain_tensors(whole, [](const GradientCall& call) {
    const Outputs gradients =
        run(call.context, ops::gru_backward, call.attributes,
            {call.outputs[2], call.inputs[1], call.output_gradients[0], call.output_gradients[1]},
            call.sequences);
    recurrent_gradients(call, gradients[0], gradients[1], call.outputs[2], 4);
    if (is_wanted(call, 3)) call.input_gradients[3].values = gradients[2];
  });
}

}  // namespace SOMA_NAMESPACE
