#pragma once
// Optimizer steps: operators without outputs, which write their inputs. Each updates one parameter
// and its states. Rows without a gradient (in a sparse gradient) are stepped with a gradient of
// zero, so that sparse and dense gradients mean the same.

#include <soma/ops/operator.hpp>
#include <soma/ops/optimizer/accumulate.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

namespace detail {

// Streams of a parameter's draws.
enum class StepSite : std::uint32_t { weight = 0, first = 1, second = 2 };

// Adjacent rows of a parameter that one kernel call updates. If rows have no meaning for the step,
// they are one run of elements.
struct StepRun {
  std::size_t begin = 0, first_row = 0;  // the parameter's element and row
  StepRows rows{};
  GradientRun gradient{};
  std::uint64_t draw_index = 0;  // the draw of the first element
};

template <class Setting>
StateRun state_run(const Tensor& tensor, std::byte* data, const Rounding& rounding,
                   const Setting& setting, StepSite site, const StepRun& run) {
  StateRun result{.data = data + run.begin * size_of(tensor.dtype()),
                  .dtype = tensor.dtype(),
                  .rounding = rounding};
  result.draw = {.seed = setting.seed,
                 .stream = setting.stream + static_cast<std::uint32_t>(site),
                 .step = setting.step,
                 .index = run.draw_index};
  return result;
}

inline bool draws(const Rounding& rounding) { return rounding.mode == RoundingMode::stochastic; }

// The logical indices at which the elements of a parameter draw. Element (row, column) of the
// parameter as a matrix draws at parameter_index(row, column). In the second mapping a matrix of
// one column, such as a bias, counts as one row, so that its elements share blocks.
class DrawIndices {
 public:
  template <class Setting>
  DrawIndices(const Setting& setting, std::size_t columns) {
    const auto look_at = [this](const Rounding& rounding) {
      any_ = any_ || draws(rounding);
      ars_ = ars_ || (draws(rounding) && rounding.draws == DrawMapping::ars);
    };
    look_at(setting.weight);
    if constexpr (requires { setting.state; }) look_at(setting.state);
    one_row_ = columns == 1 && ars_;
  }
  // any(): true if the step draws at all. rows_apart(): true if each row has indices of its own.
  bool any() const { return any_; }
  bool rows_apart() const { return any_ && !one_row_; }
  std::uint64_t at(std::size_t row, std::size_t column = 0) const {
    return one_row_ ? parameter_index(column, row) : parameter_index(row, column);
  }
  // The distance of indices from one row to the next.
  std::uint64_t stride() const { return one_row_ ? 1 : parameter_index(1, 0); }

 private:
  bool any_ = false, ars_ = false, one_row_ = false;
};

// Checks that weight and states draw by the same mapping. Error operator.value.
template <class Setting>
void check_mappings(const Setting& setting) {
  const auto is_ars = [](const Rounding& rounding) { return rounding.draws == DrawMapping::ars; };
  if (draws(setting.weight) && draws(setting.state) &&
      is_ars(setting.weight) != is_ars(setting.state))
    fail(error_id::operator_value, "optimizer step", "state.draws", to_string(setting.state.draws),
         std::string(to_string(setting.weight.draws)) + ", as the weight has");
}

// The rows of a sparse gradient, ascending; empty for a dense gradient. Error operator.value.
inline std::span<const std::int64_t> touched_rows(const Tensor& weight, const Tensor& rows) {
  if (!rows.defined() || rows.elements() == 0) return {};
  const std::span<const std::int64_t> touched = rows.span<std::int64_t>();
  if (touched.front() < 0 || static_cast<std::uint64_t>(touched.back()) >= weight.size(0))
    fail(error_id::operator_value, "optimizer step", "rows",
         std::to_string(touched.front()) + " to " + std::to_string(touched.back()),
         "rows of the weight, " + weight.describe());
  const auto fall = std::adjacent_find(touched.begin(), touched.end(),
                                       [](std::int64_t a, std::int64_t b) { return a >= b; });
  if (fall != touched.end())
    fail(error_id::operator_value, "optimizer step", "rows",
         std::to_string(fall[0]) + " before " + std::to_string(fall[1]), "ascending numbers");
  return touched;
}

// The gradient's values as rows without gaps, whatever view they are. All steps get them here, and
// none reads the gradient itself.
inline TensorRows step_gradient(const OperatorCall& call) {
  return rows_of(call.context, contiguous(call.context, call.inputs[1]));
}
// The same in the shape of the parameter; a sparse gradient is zero elsewhere. Error
// operator.value.
inline TensorRows dense_step_gradient(const OperatorCall& call) {
  const Tensor& weight = call.inputs[0];
  const Tensor rows = input_or_none(call.inputs, 2);
  const TensorRows values = step_gradient(call);
  if (!rows.defined()) return values;
  touched_rows(weight, rows);
  const Tensor dense = Tensor::zeros(call.context, weight.shape());
  add_rows(call.context, dense, {values.tensor(), rows});
  return rows_of(call.context, dense);
}

// Calls step(run) for runs that cover the parameter once. Inputs: weight, gradient values, gradient
// rows (not defined: dense), states.
template <class Setting, class Step>
void for_step_runs(const OperatorCall& call, const Setting& setting, const Step& step) {
  Context& context = call.context;
  const Tensor& weight = call.inputs[0];
  const TensorRows values = step_gradient(call);
  const Tensor rows = input_or_none(call.inputs, 2);
  const std::size_t width = size_of(values.dtype());
  const std::size_t elements = weight.elements();
  const std::size_t columns =
      weight.rank() == 0 ? 1 : weight.elements() / (std::max)(weight.size(0), std::size_t{1});
  const DrawIndices indices(setting, columns);
  const GradientRun gradient{.data = values.data(),
                             .dtype = values.dtype(),
                             .factor = setting.gradient_factor,
                             .sparse = rows.defined()};
  const auto elements_from = [&](std::size_t element) { return values.data() + element * width; };
  if (!rows.defined() && !indices.rows_apart()) {
    if (indices.any()) static_cast<void>(indices.at(setting.first_row + elements));
    for_ranges(context, elements, 16, [&](std::size_t begin, std::size_t end) {
      StepRun run{.begin = begin, .rows = {.columns = end - begin}, .gradient = gradient};
      if (indices.any()) run.draw_index = indices.at(setting.first_row + begin);
      run.gradient.data = elements_from(begin);
      step(run);
    });
    return;
  }
  if (columns == 0) return;
  static_cast<void>(parameter_index(setting.first_row + elements / columns, columns));
  const std::uint64_t draw_stride = indices.any() ? indices.stride() : columns;
  const std::span<const std::int64_t> touched = touched_rows(weight, rows);
  const auto before = [&](std::size_t row) {  // so many of them
    return static_cast<std::size_t>(
        std::lower_bound(touched.begin(), touched.end(), static_cast<std::int64_t>(row)) -
        touched.begin());
  };
  for_ranges(context, elements / columns, columns * 16, [&](std::size_t begin, std::size_t end) {
    StepRun run{.begin = begin * columns,
                .first_row = begin,
                .rows = {end - begin, columns, draw_stride},
                .gradient = gradient,
                .draw_index = indices.at(setting.first_row + begin)};
    const std::size_t first = rows.defined() ? before(begin) : begin;
    run.gradient.data = elements_from(first * columns);
    if (rows.defined()) run.gradient.rows = touched.subspan(first, before(end) - first);
    run.gradient.first_row = static_cast<std::int64_t>(begin);
    step(run);
  });
}

template <class Setting, std::size_t states>
void step_shape(const ShapeCall& call) {
  const auto& setting = call.attributes.as<Setting>();
  check_random_bits("optimizer step", "weight.random_bits", setting.weight);
  check_random_bits("optimizer step", "state.random_bits", setting.state);
  check_mappings(setting);
  const Tensor &weight = call.inputs[0], &gradient = call.inputs[1];
  const Tensor rows = input_or_none(call.inputs, 2);
  check_floating("optimizer step", "weight", weight);
  check_floating("optimizer step", "gradient", gradient);
  const auto check_row_major = [](std::string_view argument, const Tensor& tensor) {
    if (!tensor.contiguous())
      fail(error_id::tensor_not_contiguous, "optimizer step", argument,
           tensor.describe() + " with gaps", "row-major elements");
  };
  check_row_major("weight", weight);
  if (rows.defined()) {
    check_min_rank("optimizer step", "weight", weight, 1);
    check_rank("optimizer step", "rows", rows, 1);
    check_shape("optimizer step", "gradient", gradient, weight.shape().with(0, rows.size(0)));
  } else {
    check_shape("optimizer step", "gradient", gradient, weight.shape());
  }
  for (std::size_t i = 3; i < 3 + states; ++i) {
    const Tensor state = input_or_none(call.inputs, i);
    if (!state.defined())
      fail(error_id::operator_inputs, "optimizer step", input_name(i), "not defined", "a state");
    check_shape("optimizer step", "state", state, weight.shape());
    check_row_major("state", state);
  }
}

// A step with momentum has a state.
inline void sgd_shape(const ShapeCall& call) {
  call.attributes.as<SgdSetting>().momentum != 0 ? step_shape<SgdSetting, 1>(call)
                                                 : step_shape<SgdSetting, 0>(call);
}

inline void sgd_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<SgdSetting>();
  const Tensor& weight = call.inputs[0];
  const Tensor momentum = setting.momentum != 0 ? call.inputs[3] : Tensor();
  std::byte* weights = weight.mutable_raw();
  std::byte* momenta = momentum.defined() ? momentum.mutable_raw() : nullptr;
  for_step_runs(call, setting, [&](const StepRun& run) {
    SgdArgs args{.rows = run.rows};
    args.weight = state_run(weight, weights, setting.weight, setting, StepSite::weight, run);
    if (momenta != nullptr)
      args.momentum_state =
          state_run(momentum, momenta, setting.state, setting, StepSite::first, run);
    args.gradient = run.gradient;
    args.rate = setting.rate;
    args.momentum = setting.momentum;
    args.dampening = setting.dampening;
    args.weight_decay = setting.weight_decay;
    args.nesterov = setting.nesterov;
    args.first_step = setting.first_step;
    call.context.kernels().optimizer.sgd(args);
  });
}

// Marks of live rows, if the step may use them: a gradient of zero must leave moments of zero
// unchanged.
inline const std::uint8_t* live_rows(const OperatorCall& call, const AdamSetting& setting) {
  const Tensor live = input_or_none(call.inputs, 5);
  const auto keeps_zero = [](float beta) { return beta >= 0 && beta < 1; };
  const bool usable = keeps_zero(setting.beta1) && keeps_zero(setting.beta2) &&
                      setting.coupled_decay == 0 && std::isfinite(setting.gradient_factor);
  return live.defined() && usable ? live.data<std::uint8_t>() : nullptr;
}

inline void adam_shape(const ShapeCall& call) {
  step_shape<AdamSetting, 2>(call);
  const Tensor live = input_or_none(call.inputs, 5);
  if (!live.defined()) return;
  check_min_rank("optimizer step", "weight", call.inputs[0], 1);
  check_shape("optimizer step", "live", live, Shape{call.inputs[0].size(0)});
  if (live.dtype() != DType::uint8 || !live.contiguous())
    fail(error_id::tensor_dtype, "optimizer step", "live", live.describe(), "contiguous uint8");
}

inline void adam_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<AdamSetting>();
  const Tensor &weight = call.inputs[0], &m = call.inputs[3], &v = call.inputs[4];
  std::byte *weights = weight.mutable_raw(), *firsts = m.mutable_raw(), *seconds = v.mutable_raw();
  const std::uint8_t* live = live_rows(call, setting);
  for_step_runs(call, setting, [&](const StepRun& run) {
    AdamArgs args{.rows = run.rows};
    args.weight = state_run(weight, weights, setting.weight, setting, StepSite::weight, run);
    args.m = state_run(m, firsts, setting.state, setting, StepSite::first, run);
    args.v = state_run(v, seconds, setting.state, setting, StepSite::second, run);
    args.gradient = run.gradient;
    args.beta1 = setting.beta1;
    args.beta2 = setting.beta2;
    args.epsilon = setting.epsilon;
    args.one_minus_beta1 = setting.one_minus_beta1;
    args.one_minus_beta2 = setting.one_minus_beta2;
    args.decay_factor = setting.decay_factor;
    args.step_size = setting.step_size;
    args.inverse_root_correction2 = setting.inverse_root_correction2;
    args.coupled_decay = setting.coupled_decay;
    if (live != nullptr) args.live = live + run.first_row;
    call.context.kernels().optimizer.adam(args);
  });
}

// Two passes: the update and the two norms of the whole parameter, then the step. Norms are summed
// in double over fixed blocks, in order.
inline void lamb_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<LambSetting>();
  Context& context = call.context;
  const Tensor &weight = call.inputs[0], &m = call.inputs[3], &v = call.inputs[4];
  std::byte *weights = weight.mutable_raw(), *firsts = m.mutable_raw(), *seconds = v.mutable_raw();
  const TensorRows gradient = dense_step_gradient(call);
  const Tensor update = Tensor::empty(context, weight.shape());
  float* updates = update.mutable_data<float>();
  const std::size_t elements = weight.elements();
  const std::size_t columns = weight.rank() == 0 || elements == 0 ? 1 : elements / weight.size(0);
  // Blocks are rows, or runs of many elements if rows have no meaning for the step.
  const DrawIndices indices(setting, columns);
  const bool by_row = indices.rows_apart();
  const std::size_t block = by_row ? columns : 4096;
  const std::size_t blocks = (elements + block - 1) / block;
  const auto args_of = [&](std::size_t index) {
    const StepRun run{
        .begin = index * block,
        .rows = {1, (std::min)(block, elements - index * block), 0},
        .gradient = {.data = gradient.data() + index * block * size_of(gradient.dtype()),
                     .dtype = gradient.dtype(),
                     .factor = setting.gradient_factor},
        .draw_index = indices.any() ? indices.at(by_row ? index : index * block) : 0};
    LambArgs args{.count = run.rows.columns};
    args.weight = state_run(weight, weights, setting.weight, setting, StepSite::weight, run);
    args.m = state_run(m, firsts, setting.state, setting, StepSite::first, run);
    args.v = state_run(v, seconds, setting.state, setting, StepSite::second, run);
    args.gradient = run.gradient;
    args.beta1 = setting.beta1;
    args.beta2 = setting.beta2;
    args.epsilon = setting.epsilon;
    args.weight_decay = setting.weight_decay;
    args.one_minus_beta1 = setting.one_minus_beta1;
    args.one_minus_beta2 = setting.one_minus_beta2;
    args.inverse_correction1 = setting.inverse_correction1;
    args.inverse_root_correction2 = setting.inverse_root_correction2;
    args.update = updates + run.begin;
    return args;
  };
  HeapVector<std::array<double, 2>> squares(blocks, context.heap());
  for_ranges(context, blocks, block * 16, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      LambArgs args = args_of(i);
      context.kernels().optimizer.lamb_update(args);
      squares[i] = {args.weight_squares, args.update_squares};
    }
  });
  double weight_squares = 0, update_squares = 0;
  for (const auto& [of_weight, of_update] : squares) {
    weight_squares += of_weight;
    update_squares += of_update;
  }
  // The trust ratio is 1 if either norm is zero.
  const double ratio = weight_squares > 0 && update_squares > 0
                           ? std::sqrt(weight_squares) / std::sqrt(update_squares)
                           : 1;
  const auto rate = static_cast<float>(static_cast<double>(setting.rate) * ratio);
  for_ranges(context, blocks, block * 4, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      LambArgs args = args_of(i);
      args.rate_times_trust = rate;
      context.kernels().optimizer.lamb_apply(args);
    }
  });
}

}  // namespace detail

namespace ops {

// Inputs weight, gradient values, gradient rows (optional), momentum (optional).
inline constexpr Operator sgd_step{.name = "sgd step",
                                   .min_inputs = 2,
                                   .max_inputs = 4,
                                   .outputs = 0,
                                   .row_inputs = 4,
                                   .shape = &detail::sgd_shape,
                                   .host = &detail::sgd_host};
// Inputs weight, gradient values, gradient rows (optional), m, v, and live rows (optional): uint8
// for each row, 0 if m and v are known to be zero, so that a step without a gradient costs a third.
// The results are the same.
inline constexpr Operator adam_step{.name = "adam step",
                                    .min_inputs = 2,
                                    .max_inputs = 6,
                                    .outputs = 0,
                                    .row_inputs = 4,
                                    .shape = &detail::adam_shape,
                                    .host = &detail::adam_host};
inline constexpr Operator lamb_step{.name = "lamb step",
                                    .min_inputs = 2,
                                    .max_inputs = 5,
                                    .outputs = 0,
                                    .row_inputs = 4,
                                    .shape = &detail::step_shape<LambSetting, 2>,
                                    .host = &detail::lamb_host};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
