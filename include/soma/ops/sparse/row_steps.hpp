#pragma once
// Optimizer steps whose cost is that of the rows with a gradient: other rows and their states stay
// unchanged. Parameters, gradients and states are fp32. Needs add_sparse(context).

#include <soma/kernels/sparse/args.hpp>
#include <soma/ops/optimizer/optimizer_steps.hpp>
#include <soma/ops/sparse/table.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

namespace detail {

enum class RowState : std::uint8_t { none, number, row };  // the state kept for each row

// Inputs weight [R, ...], gradient [r, ...], rows [r] (not defined: the gradient has all rows), and
// states.
template <RowState kind, std::size_t states>
void row_step_shape(const ShapeCall& call) {
  constexpr std::string_view name = "row step";
  const Tensor &weight = call.inputs[0], &gradient = call.inputs[1];
  const Tensor rows = input_or_none(call.inputs, 2);
  check_min_rank(name, "weight", weight, 1);
  const auto check_plain = [&](std::string_view argument, const Tensor& tensor) {
    check_fp32(name, argument, tensor);
    if (!tensor.contiguous())
      fail(error_id::tensor_not_contiguous, name, argument, tensor.describe() + " with gaps",
           "row-major elements");
  };
  check_plain("weight", weight);
  check_fp32(name, "gradient", gradient);
  if (rows.defined()) {
    check_rank(name, "rows", rows, 1);
    if (rows.dtype() != DType::int64 || !rows.contiguous())
      fail(error_id::tensor_dtype, name, "rows", rows.describe(), "contiguous int64");
    check_shape(name, "gradient", gradient, weight.shape().with(0, rows.size(0)));
  } else {
    check_shape(name, "gradient", gradient, weight.shape());
  }
  for (std::size_t i = 3; i < 3 + states; ++i) {
    const Tensor state = input_or_none(call.inputs, i);
    if (!state.defined())
      fail(error_id::operator_inputs, name, input_name(i), "not defined", "a state");
    check_plain("state", state);
    check_shape(name, "state", state,
                kind == RowState::number ? Shape{weight.size(0)} : weight.shape());
  }
}

// Calls step(touched) for parts of the rows with a gradient, on several threads: each row belongs
// to one part.
template <class Step>
void for_touched_parts(const OperatorCall& call, const RowStepSetting& setting, const Step& step) {
  Context& context = call.context;
  const Tensor& weight = call.inputs[0];
  const Tensor values = step_gradient(call).tensor();
  const Tensor rows = input_or_none(call.inputs, 2);
  if (rows.defined()) static_cast<void>(touched_rows(weight, rows));
  const std::size_t count = values.size(0);
  if (count == 0 || weight.elements() == 0) return;
  const TouchedRows touched{.columns = weight.elements() / weight.size(0),
                            .weight = weight.mutable_data<float>(),
                            .rows = rows.defined() ? rows.data<std::int64_t>() : nullptr,
                            .gradient = values.data<float>(),
                            .factor = setting.gradient_factor};
  for_ranges(context, count, touched.columns * 2 + 32, [&](std::size_t begin, std::size_t end) {
    TouchedRows part = touched;
    part.first = begin;
    part.last = end;
    step(part);
  });
}

inline void row_sgd_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<RowStepSetting>();
  const SparseKernels& kernels = *sparse_table(call.context, "row step").kernels;
  for_touched_parts(call, setting, [&](const TouchedRows& touched) {
    kernels.row_sgd({.touched = touched, .rate = setting.rate});
  });
}

inline void row_adagrad_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<RowStepSetting>();
  const SparseKernels& kernels = *sparse_table(call.context, "row step").kernels;
  float* squares = call.inputs[3].mutable_data<float>();
  for_touched_parts(call, setting, [&](const TouchedRows& touched) {
    kernels.row_adagrad(
        {.touched = touched, .squares = squares, .rate = setting.rate, .epsilon = setting.epsilon});
  });
}

inline void row_adam_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<RowStepSetting>();
  const SparseKernels& kernels = *sparse_table(call.context, "row step").kernels;
  float *m = call.inputs[3].mutable_data<float>(), *v = call.inputs[4].mutable_data<float>();
  for_touched_parts(call, setting, [&](const TouchedRows& touched) {
    kernels.row_adam({.touched = touched,
                      .m = m,
                      .v = v,
                      .beta1 = setting.beta1,
                      .beta2 = setting.beta2,
                      .epsilon = setting.epsilon,
                      .one_minus_beta1 = setting.one_minus_beta1,
                      .one_minus_beta2 = setting.one_minus_beta2,
                      .step_size = setting.step_size,
                      .inverse_root_correction2 = setting.inverse_root_correction2});
  });
}

// Inputs weight, gradient and its rows (both optional), m, v, stamps int64 [R], history fp32
// [steps, 3]. Without a gradient the given rows, or all rows, catch up.
inline void row_lazy_adam_shape(const ShapeCall& call) {
  constexpr std::string_view name = "row step";
  if (call.inputs.size() != 7)
    fail(error_id::operator_inputs, name, "inputs", std::to_string(call.inputs.size()), "7");
  const auto& setting = call.attributes.as<RowStepSetting>();
  const Tensor &weight = call.inputs[0], &rows = call.inputs[2], &stamps = call.inputs[5],
               &history = call.inputs[6];
  ShapeCall states = call;
  const std::array<Tensor, 5> plain{weight, call.inputs[1].defined() ? call.inputs[1] : weight,
                                    call.inputs[1].defined() ? rows : Tensor(), call.inputs[3],
                                    call.inputs[4]};
  states.inputs = plain;
  row_step_shape<RowState::row, 2>(states);
  if (rows.defined() && (rows.rank() != 1 || rows.dtype() != DType::int64 || !rows.contiguous()))
    fail(error_id::tensor_dtype, name, "rows", rows.describe(), "contiguous int64");
  check_shape(name, "stamps", stamps, Shape{weight.size(0)});
  if (stamps.dtype() != DType::int64 || !stamps.contiguous())
    fail(error_id::tensor_dtype, name, "stamps", stamps.describe(), "contiguous int64");
  check_fp32(name, "history", history);
  if (setting.now < setting.base || history.rank() != 2 || history.size(1) != 3 ||
      !history.contiguous() ||
      history.size(0) < static_cast<std::uint64_t>(setting.now - setting.base))
    fail(error_id::tensor_shape, name, "history", history.describe(),
         "three numbers of each step since the base");
}

inline void row_lazy_adam_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<RowStepSetting>();
  const SparseKernels& kernels = *sparse_table(call.context, "row step").kernels;
  const Tensor &weight = call.inputs[0], &rows = call.inputs[2];
  const bool steps = call.inputs[1].defined();
  if (rows.defined()) static_cast<void>(touched_rows(weight, rows));
  const Tensor gradient = steps ? step_gradient(call).tensor() : Tensor();
  const std::size_t count = rows.defined() ? rows.size(0) : weight.size(0);
  if (count == 0 || weight.elements() == 0) return;
  const RowLazyAdamArgs args{
      .touched = {.columns = weight.elements() / weight.size(0),
                  .weight = weight.mutable_data<float>(),
                  .rows = rows.defined() ? rows.data<std::int64_t>() : nullptr,
                  .gradient = floats(gradient),
                  .factor = setting.gradient_factor},
      .m = call.inputs[3].mutable_data<float>(),
      .v = call.inputs[4].mutable_data<float>(),
      .stamps = call.inputs[5].mutable_data<std::int64_t>(),
      .history = call.inputs[6].data<float>(),
      .base = setting.base,
      .now = setting.now,
      .beta2_exact = setting.beta2_exact,
      .beta1 = setting.beta1,
      .beta2 = setting.beta2,
      .epsilon = setting.epsilon,
      .one_minus_beta1 = setting.one_minus_beta1,
      .one_minus_beta2 = setting.one_minus_beta2,
      .sleeps = setting.sleeps};
  for_ranges(call.context, count, args.touched.columns * 4 + 32,
             [&](std::size_t begin, std::size_t end) {
               RowLazyAdamArgs part = args;
               part.touched.first = begin;
               part.touched.last = end;
               kernels.row_lazy_adam(part);
             });
}

}  // namespace detail

namespace ops {

// Inputs weight, gradient values, gradient rows (optional).
inline constexpr Operator row_sgd_step{.name = "sparse::row_sgd_step",
                                       .min_inputs = 2,
                                       .max_inputs = 3,
                                       .outputs = 0,
                                       .writes_inputs = 1,
                                       .row_inputs = 4,
                                       .shape = &detail::row_step_shape<detail::RowState::none, 0>,
                                       .host = &detail::row_sgd_host};
// Inputs weight, gradient values, gradient rows (optional), sums of squares [R].
inline constexpr Operator row_adagrad_step{
    .name = "sparse::row_adagrad_step",
    .min_inputs = 2,
    .max_inputs = 4,
    .outputs = 0,
    .writes_inputs = 9,
    .row_inputs = 4,
    .shape = &detail::row_step_shape<detail::RowState::number, 1>,
    .host = &detail::row_adagrad_host};
// Inputs weight, gradient values, gradient rows (optional), m, v.
inline constexpr Operator row_adam_step{.name = "sparse::row_adam_step",
                                        .min_inputs = 2,
                                        .max_inputs = 5,
                                        .outputs = 0,
                                        .writes_inputs = 25,
                                        .row_inputs = 4,
                                        .shape = &detail::row_step_shape<detail::RowState::row, 2>,
                                        .host = &detail::row_adam_host};

// Inputs as for row_lazy_adam_shape().
inline constexpr Operator row_lazy_adam_step{.name = "sparse::row_lazy_adam_step",
                                             .min_inputs = 1,
                                             .max_inputs = 7,
                                             .outputs = 0,
                                             .writes_inputs = 57,
                                             .row_inputs = 4,
                                             .shape = &detail::row_lazy_adam_shape,
                                             .host = &detail::row_lazy_adam_host};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
