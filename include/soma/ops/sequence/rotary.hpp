#pragma once
// Rotary positions (RoFormer, arXiv 2104.09864): each pair of columns of a head is rotated by an
// angle that grows with the row's position in its sequence, so that products of queries and keys
// depend on their distance. Pairs are columns i and i + D / 2 of a head of D columns, as in
// GPT-NeoX and Llama; pair i turns by position * base^(-2 i / D), or less (RotaryScaling). Queries
// and keys that lie side by side turn in one call: `heads` counts both, and `columns` ends before
// the values.
//
// x is [rows, C] whose rows form sequences, or [..., T, C]: there positions count along T. Angles
// are computed in double; results are rounded once to x's type. The gradient rotates back.
//
// `begins`, int64 [sequences], has the position of the first row of each sequence, where sequences
// go on from earlier rows; left out: RotarySetting::first_position for all. Only for [rows, C].
//
// Errors tensor.rank, tensor.shape, tensor.dtype, operator.value (heads, columns, base, positions,
// scaling), operator.inputs (begins of [..., T, C], or beside first_position), operator.sequences
// (rank 2 without sequences).

#include <soma/numeric/portable_math.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/sequence/settings.hpp>
#include <soma/ops/support.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
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
  if (const Tensor begins = input_or_none(call.inputs, 1); begins.defined()) {
    if (x.rank() != 2 || setting.first_position != 0)
      fail(error_id::operator_inputs, "rotary", "begins",
           x.rank() != 2 ? "given for x " + x.describe()
                         : "given beside first_position " + std::to_string(setting.first_position),
           "rows that form sequences, and no first_position");
    if (begins.dtype() != DType::int64)
      fail(error_id::tensor_dtype, "rotary", "begins", begins.describe(), "int64");
    check_shape("rotary", "begins", begins, Shape{call.sequences.count()});
  }
  const std::size_t longest = x.rank() == 2 ? call.sequences.longest() : x.size(x.rank() - 2);
  if (longest > rotary_positions || setting.first_position > rotary_positions - longest)
    fail(error_id::operator_value, "rotary", "first_position",
         std::to_string(setting.first_position) + " beside sequences of " +
             std::to_string(longest) + " rows",
         "positions below 2^20");
  const RotaryScaling& scaling = setting.scaling;
  if (scaling.kind == RotaryScaling::Kind::llama3 &&
      !(scaling.low_frequency_factor < scaling.high_frequency_factor))
    fail(error_id::operator_value, "rotary", "scaling.low_frequency_factor",
         std::to_string(scaling.low_frequency_factor),
         "below high_frequency_factor, " + std::to_string(scaling.high_frequency_factor));
}

inline void rotary_shape(const ShapeCall& call) {
  check_rotary(call);
  call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
}

// How far a pair turns in a row.
inline double rotary_frequency(const RotarySetting& setting, std::size_t width, std::size_t pair) {
  constexpr double two_pi = 6.283185307179586477;
  const double exponent = -2.0 * static_cast<double>(pair) / static_cast<double>(width);
  const double own = portable_pow(static_cast<double>(setting.base), exponent);
  const RotaryScaling& scaling = setting.scaling;
  const double slow = own / static_cast<double>(scaling.factor);
  switch (scaling.kind) {
    case RotaryScaling::Kind::none:
      return own;
    case RotaryScaling::Kind::linear:
      return slow;
    case RotaryScaling::Kind::llama3:
      break;
  }
  // The turns of the pair in the sequences that the model began with.
  const double turns = static_cast<double>(scaling.original_positions) * own / two_pi;
  const auto low = static_cast<double>(scaling.low_frequency_factor),
             high = static_cast<double>(scaling.high_frequency_factor);
  if (turns > high) return own;
  if (turns < low) return slow;
  const double share = (turns - low) / (high - low);
  return (1 - share) * slow + share * own;
}

// Calls each(i, cosine, sine) for the angles of all positions and pairs, i = position * pairs +
// pair, on several threads. `given`: the number of each position; nullptr: those from
// first_position on.
template <class Each>
void for_rotary_turns(Context& context, const RotarySetting& setting, std::size_t positions,
                      std::size_t width, const Each& each, const std::size_t* given = nullptr) {
  const std::size_t pairs = width / 2;
  HeapVector<double> frequencies(pairs, context.heap());
  for (std::size_t pair = 0; pair < pairs; ++pair)
    frequencies[pair] = rotary_frequency(setting, width, pair);
  for_ranges(context, positions, pairs * 64, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin * pairs; i < end * pairs; ++i) {
      const std::size_t position =
          given != nullptr ? given[i / pairs] : i / pairs + setting.first_position;
      const double angle = static_cast<double>(position) * frequencies[i % pairs];
      each(i, portable_cosine(angle), portable_sine(angle));
    }
  });
}

// The position of each row of sequences that begin at `begins`. Error operator.value.
inline void rotary_rows(const Tensor& begins, const Sequences& sequences,
                        HeapVector<std::size_t>& positions) {
  for (std::size_t i = 0; i < sequences.count(); ++i) {
    const std::int64_t first = begins.data<std::int64_t>()[i];
    const std::size_t length = sequences.length(i);
    if (first < 0 || static_cast<std::uint64_t>(first) > rotary_positions - length)
      fail(error_id::operator_value, "rotary", "begins",
           std::to_string(first) + " for a sequence of " + std::to_string(length) + " rows",
           "positions from 0 to below 2^20");
    for (std::size_t row = 0; row < length; ++row)
      positions.push_back(static_cast<std::size_t>(first) + row);
  }
}

// `back`: true for the gradient.
inline void turn_rows(const OperatorCall& call, bool back) {
  const auto& setting = call.attributes.as<RotarySetting>();
  Context& context = call.context;
  const TensorRows x = rows_of(context, call.inputs[0]);
  if (x.elements() == 0) return;
  const bool ragged = x.shape().rank() == 2;
  const std::size_t rows = x.shape().rows(), columns = x.shape().columns();
  const Tensor begins = input_or_none(call.inputs, 1);
  HeapVector<std::size_t> own(context.heap());  // with `begins` each row has angles of its own
  if (begins.defined()) rotary_rows(contiguous(context, begins), call.sequences, own);
  const std::size_t positions = begins.defined() ? rows
                                : ragged         ? call.sequences.longest()
                                                 : x.tensor().size(x.shape().rank() - 2);
  const std::size_t width = rotary_columns(setting, x.tensor()) / setting.heads, half = width / 2;
  HeapVector<float> cosines(positions * half, context.heap()),
      sines(positions * half, context.heap());
  for_rotary_turns(
      context, setting, positions, width,
      [&](std::size_t i, double cosine, double sine) {
        cosines[i] = static_cast<float>(cosine);
        sines[i] = static_cast<float>(sine);
      },
      begins.defined() ? own.data() : nullptr);
  HeapVector<std::size_t> table_rows(rows, context.heap());
  if (begins.defined())
    for (std::size_t row = 0; row < rows; ++row) table_rows[row] = row;
  else if (ragged)
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
                                          .max_inputs = 2,
                                          .shape = &detail::rotary_shape,
                                          .host = &detail::rotary_backward_host};

inline constexpr Operator rotary{.name = "rotary",
                                 .max_inputs = 2,
                                 .keeps_inputs = 2,
                                 .shape = &detail::rotary_shape,
                                 .host = &detail::rotary_host,
                                 .gradient = &detail::rotary_gradient,
                                 .wide_gradients = true,
                                 .built_in_samples = true};

}  // namespace ops

inline void detail::rotary_gradient(const GradientCall& call) {
  call.input_gradients[0].values =
      run(call.context, ops::rotary_backward, call.attributes,
          {call.output_gradients[0], input_or_none(call.inputs, 1)}, call.sequences)[0];
}

}  // namespace SOMA_NAMESPACE
