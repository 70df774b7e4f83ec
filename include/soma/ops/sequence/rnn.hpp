#pragma once
// One layer and direction of a recurrent layer without gates (Elman) over the sequences of a batch.
// Input products are not included, as in gru.hpp.
//
//   state = tanh(x + state W_hh^T + b_hh), or the part of that above 0 (RnnSetting::relu)
//
// Inputs:  x [rows, H]; weight [H, H]; bias [H] or left out; the states that sequences begin with,
//          [sequences, H], or left out: zeros
// Outputs: the state after each row [rows, H]; the last state of each sequence [sequences, H], the
//          first one where it has no rows; what backward needs [rows, 2 H]
//
// Rounding and order are those of gru.hpp. Errors tensor.rank, tensor.dtype, tensor.shape,
// operator.sequences.

#include <soma/ops/batch.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/product/linear.hpp>
#include <soma/ops/product/matmul.hpp>
#include <soma/ops/sequence/gradients.hpp>
#include <soma/ops/sequence/gru.hpp>
#include <soma/ops/sequence/recurrent.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

namespace detail {

inline void rnn_shape(const ShapeCall& call) {
  check_recurrent("rnn", call, 1);
  const std::size_t rows = call.inputs[0].size(0), hidden = call.inputs[1].size(1);
  const DType dtype = call.inputs[0].dtype();
  call.outputs[0] = {Shape{rows, hidden}, dtype};
  call.outputs[1] = {Shape{call.sequences.count(), hidden}, dtype};
  call.outputs[2] = {Shape{rows, 2 * hidden}, DType::fp32};
}

inline void rnn_steps(const OperatorCall& call) {
  Context& context = call.context;
  const Tensor &x = call.inputs[0], &weight = call.inputs[1], state = input_or_none(call.inputs, 3);
  const float* const bias = floats(input_or_none(call.inputs, 2));
  const std::size_t hidden = weight.size(1);
  const bool relu = call.attributes.as<RnnSetting>().relu;
  const StepPlan plan(context, call.sequences, call.attributes.as<RnnSetting>().reverse,
                      hidden * hidden);
  const TensorRows weight_rows = rows_of(context, weight);
  const StepProduct product(context, transposed(operand(weight_rows)), hidden, hidden, plan.most());
  const TaskRows memory(context, plan.tasks(), plan.most() * 2 * hidden, product.workspace_bytes());
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
        context.kernels().sequence.rnn({.hidden = hidden,
                                        .relu = relu,
                                        .x = x.data<float>() + row * hidden,
                                        .h = h + i * hidden,
                                        .state = states + i * hidden,
                                        .y = y + row * hidden,
                                        .notes = notes + row * 2 * hidden});
      }
    }
    for (std::size_t i = 0; i < plan.count(task); ++i)
      std::memcpy(last + plan.sequence(task, i) * hidden, states + i * hidden,
                  hidden * sizeof(float));
  });
}
inline void rnn_host(const OperatorCall& call) { with_plain_tensors(call, 0, &rnn_steps); }

// Inputs: notes, weight, and the gradients of the first two outputs, or none. Outputs: dx
// [rows, H], which is that of the hidden product too, and the gradient of the initial states
// [sequences, H].
inline void rnn_backward_shape(const ShapeCall& call) {
  const std::size_t rows = call.inputs[0].size(0), hidden = call.inputs[1].size(1);
  call.outputs[0] = {Shape{rows, hidden}, DType::fp32};
  call.outputs[1] = {Shape{call.sequences.count(), hidden}, DType::fp32};
}

inline void rnn_backward_steps(const OperatorCall& call) {
  Context& context = call.context;
  const Tensor &notes = call.inputs[0], &weight = call.inputs[1],
               dy = input_or_none(call.inputs, 2), dlast = input_or_none(call.inputs, 3);
  const std::size_t hidden = weight.size(1);
  const bool relu = call.attributes.as<RnnSetting>().relu;
  const StepPlan plan(context, call.sequences, call.attributes.as<RnnSetting>().reverse,
                      hidden * hidden);
  const TensorRows weight_rows = rows_of(context, weight);
  const StepProduct product(context, operand(weight_rows), hidden, hidden, plan.most());
  const TaskRows memory(context, plan.tasks(), plan.most() * 2 * hidden + hidden,
                        product.workspace_bytes());
  float *const dx = call.outputs[0].mutable_data<float>(), *const dstate =
                                                               call.outputs[1]
                                                                   .mutable_data<float>();
  parallel(context, static_cast<int>(plan.tasks()), [&](int index) {
    const auto task = static_cast<std::size_t>(index);
    float *const states = memory.floats(task), *const work = states + plan.most() * hidden,
                 *const zeros = work + plan.most() * hidden;
    std::fill_n(zeros, hidden, 0.0f);
    for (std::size_t i = 0; i < plan.count(task); ++i)
      copy_state(dlast, plan.sequence(task, i), hidden, states + i * hidden);
    for (std::size_t step = plan.longest(task); step-- > 0;) {
      const std::size_t alive = plan.alive(task, step);
      for (std::size_t i = 0; i < alive; ++i) {
        const std::size_t row = plan.row(plan.sequence(task, i), step);
        context.kernels().sequence.rnn_backward(
            {.hidden = hidden,
             .relu = relu,
             .notes = notes.data<float>() + row * 2 * hidden,
             .dy = dy.defined() ? dy.data<float>() + row * hidden : zeros,
             .dstate = states + i * hidden,
             .dx = dx + row * hidden,
             .dx_too = work + i * hidden});
      }
      product.run(work, alive, states, nullptr, false, memory.workspace(task));
    }
    for (std::size_t i = 0; i < plan.count(task); ++i)
      std::memcpy(dstate + plan.sequence(task, i) * hidden, states + i * hidden,
                  hidden * sizeof(float));
  });
}
inline void rnn_backward_host(const OperatorCall& call) {
  with_plain_tensors(call, 0, &rnn_backward_steps);
}

inline void rnn_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

inline constexpr Operator rnn_backward{.name = "rnn backward",
                                       .min_inputs = 2,
                                       .max_inputs = 4,
                                       .outputs = 2,
                                       .shape = &detail::rnn_backward_shape,
                                       .host = &detail::rnn_backward_host,
                                       .operations = &detail::gru_operations};

inline constexpr Operator rnn{.name = "rnn",
                              .min_inputs = 2,
                              .max_inputs = 4,
                              .outputs = 3,
                              .keeps_inputs = 2,
                              .keeps_outputs = 4,
                              .batch = &detail::batch_with_summaries,
                              .shape = &detail::rnn_shape,
                              .host = &detail::rnn_host,
                              .gradient = &detail::rnn_gradient,
                              .wide_gradients = true,
                              .built_in_samples = true,
                              .operations = &detail::gru_operations};

}  // namespace ops

inline void detail::rnn_gradient(const GradientCall& whole) {
  with_plain_tensors(whole, [](const GradientCall& call) {
    const Outputs gradients =
        run(call.context, ops::rnn_backward, call.attributes,
            {call.outputs[2], call.inputs[1], call.output_gradients[0], call.output_gradients[1]},
            call.sequences);
    recurrent_gradients(call, gradients[0], gradients[0], call.outputs[2], 1);
    if (is_wanted(call, 3)) call.input_gradients[3].values = gradients[1];
  });
}

}  // namespace SOMA_NAMESPACE
