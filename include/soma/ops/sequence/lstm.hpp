#pragma once
// One layer and direction of an LSTM (Hochreiter and Schmidhuber, Neural Computation 9(8), 1997,
// with the forget gate of Gers et al., 2000) over the sequences of a batch, which may have
// different lengths. Input products are not included: x holds W_ih x + b_ih for all rows.
//
//   h = state W_hh^T + b_hh
//   i = sigmoid(x_i + h_i)    f = sigmoid(x_f + h_f)    g = tanh(x_g + h_g)
//   o = sigmoid(x_o + h_o)    cell = f cell + i g       state = o tanh(cell)
//
// Inputs:  x [rows, 4 H], gates side by side: input, forget, cell, output; weight [4 H, H]; bias
//          [4 H] or left out; the states and the cells that sequences begin with, [sequences, H]
//          each, or left out: zeros
// Outputs: the state after each row [rows, H]; the last state and the last cell of each sequence,
//          [sequences, H] each, the first ones where it has no rows; what backward needs
//          [rows, 7 H]
//
// The order of gates is that of PyTorch (torch.nn.LSTM) and cuDNN. States and cells are fp32
// between steps, and results are rounded once. With `reverse`, sequences run from their last row to
// their first.
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

inline void lstm_shape(const ShapeCall& call) {
  check_recurrent("lstm", call, 4);
  const std::size_t rows = call.inputs[0].size(0), hidden = call.inputs[1].size(1);
  const DType dtype = call.inputs[0].dtype();
  call.outputs[0] = {Shape{rows, hidden}, dtype};
  call.outputs[1] = call.outputs[2] = {Shape{call.sequences.count(), hidden}, dtype};
  call.outputs[3] = {Shape{rows, 7 * hidden}, DType::fp32};
}

inline void lstm_steps(const OperatorCall& call) {
  Context& context = call.context;
  const Tensor &x = call.inputs[0], &weight = call.inputs[1], state = input_or_none(call.inputs, 3),
               cell = input_or_none(call.inputs, 4);
  const float* const bias = floats(input_or_none(call.inputs, 2));
  const std::size_t hidden = weight.size(1), gates = 4 * hidden;
  const StepPlan plan(context, call.sequences, call.attributes.as<RecurrentSetting>().reverse,
                      hidden * gates);
  const TensorRows weight_rows = rows_of(context, weight);
  const StepProduct product(context, transposed(operand(weight_rows)), hidden, gates, plan.most());
  const TaskRows memory(context, plan.tasks(), plan.most() * (2 * hidden + gates),
                        product.workspace_bytes());
  float *const y = call.outputs[0].mutable_data<float>(),
               *const last_state = call.outputs[1].mutable_data<float>(),
               *const last_cell = call.outputs[2].mutable_data<float>(),
               *const notes = call.outputs[3].mutable_data<float>();
  parallel(context, static_cast<int>(plan.tasks()), [&](int index) {
    const auto task = static_cast<std::size_t>(index);
    float *const states = memory.floats(task), *const cells = states + plan.most() * hidden,
                 *const h = cells + plan.most() * hidden;
    for (std::size_t i = 0; i < plan.count(task); ++i) {
      copy_state(state, plan.sequence(task, i), hidden, states + i * hidden);
      copy_state(cell, plan.sequence(task, i), hidden, cells + i * hidden);
    }
    for (std::size_t step = 0; step < plan.longest(task); ++step) {
      const std::size_t alive = plan.alive(task, step);
      product.run(states, alive, h, bias, false, memory.workspace(task));
      for (std::size_t i = 0; i < alive; ++i) {
        const std::size_t row = plan.row(plan.sequence(task, i), step);
        context.kernels().sequence.lstm({.hidden = hidden,
                                         .x = x.data<float>() + row * gates,
                                         .h = h + i * gates,
                                         .state = states + i * hidden,
                                         .cell = cells + i * hidden,
                                         .y = y + row * hidden,
                                         .notes = notes + row * 7 * hidden});
      }
    }
    for (std::size_t i = 0; i < plan.count(task); ++i) {
      const std::size_t to = plan.sequence(task, i) * hidden;
      std::memcpy(last_state + to, states + i * hidden, hidden * sizeof(float));
      std::memcpy(last_cell + to, cells + i * hidden, hidden * sizeof(float));
    }
  });
}
inline void lstm_host(const OperatorCall& call) { with_plain_tensors(call, 0, &lstm_steps); }

// Inputs: notes, weight, and the gradients of the first three outputs, or none. Outputs: the
// gradient of the gates [rows, 4 H], which is the same for x and the hidden gates, and the
// gradients of the initial states and cells, [sequences, H] each.
inline void lstm_backward_shape(const ShapeCall& call) {
  const std::size_t rows = call.inputs[0].size(0), hidden = call.inputs[1].size(1);
  call.outputs[0] = {Shape{rows, 4 * hidden}, DType::fp32};
  call.outputs[1] = call.outputs[2] = {Shape{call.sequences.count(), hidden}, DType::fp32};
}

inline void lstm_backward_steps(const OperatorCall& call) {
  Context& context = call.context;
  const Tensor &notes = call.inputs[0], &weight = call.inputs[1],
               dy = input_or_none(call.inputs, 2), dlast = input_or_none(call.inputs, 3),
               dlast_cell = input_or_none(call.inputs, 4);
  const std::size_t hidden = weight.size(1), gates = 4 * hidden;
  const StepPlan plan(context, call.sequences, call.attributes.as<RecurrentSetting>().reverse,
                      hidden * gates);
  const TensorRows weight_rows = rows_of(context, weight);
  const StepProduct product(context, operand(weight_rows), gates, hidden, plan.most());
  const TaskRows memory(context, plan.tasks(), plan.most() * (2 * hidden + gates) + hidden,
                        product.workspace_bytes());
  float *const dgates = call.outputs[0].mutable_data<float>(),
               *const dstate = call.outputs[1].mutable_data<float>(),
               *const dcell = call.outputs[2].mutable_data<float>();
  parallel(context, static_cast<int>(plan.tasks()), [&](int index) {
    const auto task = static_cast<std::size_t>(index);
    float *const states = memory.floats(task), *const cells = states + plan.most() * hidden,
                 *const work = cells + plan.most() * hidden,
                 *const zeros = work + plan.most() * gates;
    std::fill_n(zeros, hidden, 0.0f);
    for (std::size_t i = 0; i < plan.count(task); ++i) {
      copy_state(dlast, plan.sequence(task, i), hidden, states + i * hidden);
      copy_state(dlast_cell, plan.sequence(task, i), hidden, cells + i * hidden);
    }
    for (std::size_t step = plan.longest(task); step-- > 0;) {
      const std::size_t alive = plan.alive(task, step);
      for (std::size_t i = 0; i < alive; ++i) {
        const std::size_t row = plan.row(plan.sequence(task, i), step);
        context.kernels().sequence.lstm_backward(
            {.hidden = hidden,
             .notes = notes.data<float>() + row * 7 * hidden,
             .dy = dy.defined() ? dy.data<float>() + row * hidden : zeros,
             .dstate = states + i * hidden,
             .dcell = cells + i * hidden,
             .dgates = dgates + row * gates,
             .dgates_too = work + i * gates});
      }
      product.run(work, alive, states, nullptr, false, memory.workspace(task));
    }
    for (std::size_t i = 0; i < plan.count(task); ++i) {
      const std::size_t to = plan.sequence(task, i) * hidden;
      std::memcpy(dstate + to, states + i * hidden, hidden * sizeof(float));
      std::memcpy(dcell + to, cells + i * hidden, hidden * sizeof(float));
    }
  });
}
inline void lstm_backward_host(const OperatorCall& call) {
  with_plain_tensors(call, 0, &lstm_backward_steps);
}

inline double lstm_operations(const OperatorCall& call) {
  return 2.0 * static_cast<double>(call.inputs[0].size(0)) *
         static_cast<double>(call.inputs[1].elements());
}

inline void lstm_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

inline constexpr Operator lstm_backward{.name = "lstm backward",
                                        .min_inputs = 2,
                                        .max_inputs = 5,
                                        .outputs = 3,
                                        .shape = &detail::lstm_backward_shape,
                                        .host = &detail::lstm_backward_host,
                                        .operations = &detail::lstm_operations};

inline constexpr Operator lstm{.name = "lstm",
                               .min_inputs = 2,
                               .max_inputs = 5,
                               .outputs = 4,
                               .keeps_inputs = 2,
                               .keeps_outputs = 8,
                               .batch = &detail::batch_with_summaries,
                               .shape = &detail::lstm_shape,
                               .host = &detail::lstm_host,
                               .gradient = &detail::lstm_gradient,
                               .wide_gradients = true,
                               .built_in_samples = true,
                               .operations = &detail::lstm_operations};

}  // namespace ops

inline void detail::lstm_gradient(const GradientCall& whole) {
  with_plain_tensors(whole, [](const GradientCall& call) {
    const Outputs gradients = run(call.context, ops::lstm_backward, call.attributes,
                                  {call.outputs[3], call.inputs[1], call.output_gradients[0],
                                   call.output_gradients[1], call.output_gradients[2]},
                                  call.sequences);
    recurrent_gradients(call, gradients[0], gradients[0], call.outputs[3], 6);
    if (is_wanted(call, 3)) call.input_gradients[3].values = gradients[1];
    if (is_wanted(call, 4)) call.input_gradients[4].values = gradients[2];
  });
}

}  // namespace SOMA_NAMESPACE
