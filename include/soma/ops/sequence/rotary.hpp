#pragma once
// Rotary positions (RoFormer, arXiv 2104.09864): each pair of columns of a head is rotated by an
// angle that grows with the row's position in its sequence, so that products of queries and keys
// depend on their distance. Pairs are columns i and i + D / 2 of a head of D columns, as in
// GPT-NeoX and Llama; pair i turns by position * base^(-2 i / D).
//
// x is [rows, C] whose rows form sequences, or [..., T, C]: there positions count along T. Angles
// are computed in double; results are rounded once to x's type. The gradient rotates back.
//
// Errors tensor.rank, tensor.dtype, operator.value (heads, columns, base, positions),
// operator.sequences (rank 2 without sequences).

#include <soma/numeric/portable_math.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/sequence/settings.hpp>
#include <soma/ops/support.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

inline constexpr std::size_t rotary_positions = std::size_t{1} << 20;

inline std::size_t rotary_columns(const RotarySetting& setting, const Tensor& x) {
  return setting.columns == 0 ? x.shape().columns() : setting.columns;
}

inline void check_rotary(const ShapeCall& call) {
  const auto& setting = call.attributes.as<RotarySetting>();
  const Tensor& x = call.inputs[0];
  check_min_rank("rotary", "x", x, 2);
  check_floating("rotary", "x", x);
  if (x.rank() == 2) check_sequences("rotary", x, call.sequences);
  const std::size_t columns = rotary_columns(setting, x);
  if (columns > x.shape().columns())
    fail(error_id::operator_value, "rotary", "columns", std::to_string(columns),
         "at most the columns of x, " + x.describe());
  if (setting.heads == 0 || columns % (2 * setting.heads) != 0)
    fail(error_id::operator_value, "rotary", "heads", std::to_string(setting.heads),
         "a number of heads such that 2 * heads divides the columns, " + std::to_string(columns));
  const std::size_t longest = x.rank() == 2 ? call.sequences.longest() : x.size(x.rank() - 2);
  if (longest > rotary_positions || setting.first_position > rotary_positions - longest)
    fail(error_id::operator_value, "rotary", "first_position",
         std::to_string(setting.first_position) + " beside sequences of " +
             std::to_string(longest) + " rows",
         "positions below 2^20");
}

inline void rotary_shape(const ShapeCall& call) {
  check_rotary(call);
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}

// The angle of a pair at a position: its cosine and sine.
struct RotaryTurn {
  RotaryTurn(const RotarySetting& setting, std::size_t width, std::size_t position,
             std::size_t pair) {
    const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(width);
    const double angle = static_cast<double>(position + setting.first_position) *
                         portable_pow(static_cast<double>(setting.base), exponent);
    cosine = portable_cosine(angle);
    sine = portable_sine(angle);
  }
  double cosine, sine;
};

// `back`: true for the gradient.
inline void turn_rows(const OperatorCall& call, bool back) {
  const auto& setting = call.attributes.as<RotarySetting>();
  Context& context = call.context;
  const TensorRows x = rows_of(context, call.inputs[0]);
  if (x.elements() == 0) return;
  const bool ragged = x.shape().rank() == 2;
  const std::size_t rows = x.shape().rows(), columns = x.shape().columns();
  const std::size_t positions =
      ragged ? call.sequences.longest() : x.tensor().size(x.shape().rank() - 2);
  const std::size_t width = rotary_columns(setting, x.tensor()) / setting.heads, half = width / 2;
  HeapVector<float> cosines(positions * half, context.heap()),
      sines(positions * half, context.heap());
  for_ranges(context, positions, half * 64, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin * half; i < end * half; ++i) {
      const RotaryTurn turn(setting, width, i / half, i % half);
      cosines[i] = static_cast<float>(turn.cosine);
      sines[i] = static_cast<float>(turn.sine);
    }
  });
  HeapVector<std::size_t> table_rows(rows, context.heap());
  if (ragged)
    for (std::size_t i = 0; i < call.sequences.count(); ++i)
      for (std::size_t row = call.sequences.begin(i); row < call.sequences.end(i); ++row)
        table_rows[row] = row - call.sequences.begin(i);
  else
    for (std::size_t row = 0; row < rows; ++row) table_rows[row] = row % positions;
  const MatrixTarget y = target(call.outputs[0]);
  for_ranges(context, rows, columns * 4, [&](std::size_t begin, std::size_t end) {
    context.kernels().sequence.rotary({.rows = end - begin,
                                       .columns = columns,
                                       .heads = setting.heads,
                                       .width = width,
                                       .back = back,
                                       .cosines = cosines.data(),
                                       .sines = sines.data(),
                                       .table_rows = table_rows.data() + begin,
                                       .x = part(operand(x), begin, 0),
                                       .y = part(y, begin, 0)});
  });
}
inline void rotary_host(const OperatorCall& call) { turn_rows(call, false); }
inline void rotary_backward_host(const OperatorCall& call) { turn_rows(call, true); }

inline void rotary_gradient(const GradientCall& call);

}  // namespace detail

namespace ops {

inline constexpr Operator rotary_backward{.name = "rotary backward",
                                          .shape = &detail::rotary_shape,
                                          .host = &detail::rotary_backward_host};

inline constexpr Operator rotary{.name = "rotary",
                                 .shape = &detail::rotary_shape,
                                 .host = &detail::rotary_host,
                                 .gradient = &detail::rotary_gradient,
                                 .wide_gradients = true,
                                 .built_in_samples = true};

}  // namespace ops

inline void detail::rotary_gradient(const GradientCall& call) {
  call.input_gradients[0].values = run(call.context, ops::rotary_backward, call.attributes,
                                       {call.output_gradients[0]}, call.sequences)[0];
}

}  // namespace SOMA_NAMESPACE
