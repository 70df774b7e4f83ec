#pragma once
// Dropout ("Dropout: A Simple Way to Prevent Neural Networks from Overfitting", Srivastava et al.,
// 2014), inverted: y = x / (1 - p) where kept, else 0. The draw and the logical position of an
// element decide if it is dropped, so no mask is stored: the gradient is the same operator on dy.

#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <cstddef>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

inline std::uint32_t dropout_threshold(const DropoutSetting& setting) {
  return static_cast<std::uint32_t>(static_cast<double>(setting.probability) * 0x1p32);
}

// The arguments for a kernel over a matrix: elements are keyed by token_index(ordinal, position,
// column), rows without sequences by token_index(row, 0, column). Error random.index_range.
inline DropoutArgs dropout_args(const DropoutSetting& setting, const Sequences& sequences,
                                std::size_t rows, std::size_t columns) {
  DropoutArgs args;
  args.threshold = dropout_threshold(setting);
  if (args.threshold == 0) return args;
  args.keep_scale = static_cast<float>(1 / (1 - static_cast<double>(setting.probability)));
  args.draw = setting.draw;
  args.draw.index = 0;
  args.row_indices = draw_rows(sequences, rows);
  if (!sequences.defined() && rows != 0) {
    static_cast<void>(token_index(rows - 1, 0, 0));
    args.draw_row_stride = std::uint64_t{1} << 40;
  }
  if (columns != 0) static_cast<void>(token_index(0, 0, columns - 1));
  return args;
}

inline void dropout_shape(const ShapeCall& call) {
  check_floating("dropout", "x", call.inputs[0]);
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}

inline void dropout_host(const OperatorCall& call) {
  const TensorRows x = rows_of(call.context, call.inputs[0]);
  const std::size_t rows = x.shape().rows(), columns = x.shape().columns();
  const DropoutArgs all =
      dropout_args(call.attributes.as<DropoutSetting>(), call.sequences, rows, columns);
  const MatrixTarget to = target(call.outputs[0]);
  for_ranges(call.context, rows, columns * 8, [&](std::size_t begin, std::size_t end) {
    DropArgs args{.rows = end - begin,
                  .columns = columns,
                  .x = part(operand(x), begin, 0),
                  .dropout = all,
                  .y = part(to, begin, 0)};
    shift_draws(args.dropout, begin, 0);
    call.context.kernels().element.dropout(args);
  });
}

inline void dropout_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

inline constexpr Operator dropout{.name = "dropout",
                                  .batch_inputs = 1,
                                  .shape = &detail::dropout_shape,
                                  .host = &detail::dropout_host,
                                  .gradient = &detail::dropout_gradient,
                                  .wide_gradients = true,
                                  .built_in_samples = true};

}  // namespace ops

inline void detail::dropout_gradient(const GradientCall& call) {
  call.input_gradients[0].values = run(call.context, ops::dropout, call.attributes,
                                       {call.output_gradients[0]}, call.sequences)[0];
}

}  // namespace SOMA_NAMESPACE
