#pragma once
// The functions of choosing.hpp.

#include <soma/autograd/choosing.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/numeric/draw_sequence.hpp>
#include <soma/numeric/portable_math.hpp>
#include <soma/ops/choose/elements.hpp>
#include <soma/ops/choose/settings.hpp>
#include <soma/ops/element/settings.hpp>
#include <soma/ops/image/settings.hpp>
#include <soma/ops/plain_call.hpp>
#include <soma/ops/records.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

SOMA_INLINE Var elu(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::elu), {}, {x});
}

SOMA_INLINE Var hard_sigmoid(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::hard_sigmoid), {}, {x});
}

SOMA_INLINE Var hard_swish(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::hard_swish), {}, {x});
}

SOMA_INLINE Var hard_tanh(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::hard_tanh), {}, {x});
}

SOMA_INLINE Var leaky_relu(Tape& tape, const Var& x, float slope) {
  return tape.apply(*tape.operators().leaky_relu, LeakySetting{slope}, {x});
}

SOMA_INLINE Var clamp(Tape& tape, const Var& x, float low, float high) {
  return tape.apply(*tape.operators().clamp, ClampSetting{low, high}, {x});
}

SOMA_INLINE Var pow(Tape& tape, const Var& x, float exponent) {
  return tape.apply(*tape.operators().power, PowerSetting{exponent}, {x});
}

SOMA_INLINE Var where(Tape& tape, const Var& condition, const Var& a, const Var& b) {
  return tape.apply(*tape.operators().where, {}, {condition, a, b});
}

SOMA_INLINE Var gather(Tape& tape, const Var& x, std::size_t dimension, const Var& index) {
  return tape.apply(*tape.operators().gather, DimensionSetting{dimension}, {x, index});
}

SOMA_INLINE Var index_select(Tape& tape, const Var& x, std::size_t dimension, const Var& index) {
  const Var first = dimension == 0 ? x : transpose(tape, x, 0, dimension);
  const Shape& shape = first.shape();
  if (shape.rank() == 2) {
    const Var chosen = embedding(tape, first, index);
    return dimension == 0 ? chosen : transpose(tape, chosen, 0, dimension);
  }
  if (shape.rank() == 0 || index.shape().rank() != 1)
    fail(error_id::tensor_rank, "index_select", "index", index.value().describe(),
         "rank 1, and x of rank 1 or more");
  const std::size_t rows = shape[0], columns = rows == 0 ? 0 : shape.elements() / rows;
  const Var chosen = embedding(tape, reshape(tape, first, Shape{rows, columns}), index);
  Var y = reshape(tape, chosen, shape.with(0, index.shape()[0]));
  // A batch in the other dimensions stays there, whatever a reshape says of one row.
  const Sequences& batch = first.sequences();
  if (batch.defined() && batch.place().dimension != 0) y = tape.with_sequences(y, batch);
  return dimension == 0 ? y : transpose(tape, y, 0, dimension);
}

SOMA_INLINE Extremes top_k(Tape& tape, const Var& x, std::size_t k, std::size_t dimension,
                           bool smallest) {
  const Var input[] = {x};
  const VarOutputs y =
      tape.apply_all(*tape.operators().top_k, TopKSetting{dimension, k, smallest}, input);
  return {y[0], tape.detach(y[1])};
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE Extremes one_extreme(Tape& tape, const Var& x, std::size_t dimension, bool smallest) {
  const Extremes found = top_k(tape, x, 1, dimension, smallest);
  const Shape shape = found.values.shape().without(dimension);
  Sequences batch = x.sequences();
  if (batch.defined() && batch.place().dimension == dimension) batch = {};
  if (batch.defined() && batch.place().dimension > dimension) {
    BatchPlace place = batch.place();
    --place.dimension;
    batch = batch.at(place);
  }
  const auto without = [&](const Var& y) {
    return tape.with_sequences(reshape(tape, y, shape), batch);
  };
  return {without(found.values), without(found.indices)};
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE Extremes max(Tape& tape, const Var& x, std::size_t dimension) {
  return detail::one_extreme(tape, x, dimension, false);
}

SOMA_INLINE Extremes min(Tape& tape, const Var& x, std::size_t dimension) {
  return detail::one_extreme(tape, x, dimension, true);
}

SOMA_INLINE Var argmax(Tape& tape, const Var& x, std::size_t dimension) {
  return detail::one_extreme(tape, tape.detach(x), dimension, false).indices;
}

SOMA_INLINE Extremes sort(Tape& tape, const Var& x, std::size_t dimension, bool descending) {
  const std::size_t all = dimension < x.shape().rank() ? x.shape()[dimension] : 0;
  return top_k(tape, x, all, dimension, !descending);
}

SOMA_INLINE Var argsort(Tape& tape, const Var& x, std::size_t dimension, bool descending) {
  return sort(tape, tape.detach(x), dimension, descending).indices;
}

SOMA_INLINE Var scatter_add(Tape& tape, const Var& x, std::size_t dimension, const Var& index,
                            const Var& values) {
  return tape.apply(*tape.operators().scatter_add, DimensionSetting{dimension}, {x, values, index});
}

SOMA_INLINE Var cumsum(Tape& tape, const Var& x, std::size_t dimension) {
  return tape.apply(*tape.operators().cumsum, DimensionSetting{dimension}, {x});
}

SOMA_INLINE Var one_hot(Tape& tape, const Var& ids, std::size_t classes) {
  const Tensor numbers = contiguous(tape.context(), ids.value());
  detail::check_index_type("one_hot", "ids", numbers);
  const Shape& shape = numbers.shape();
  std::array<std::size_t, max_rank> sizes{};
  if (shape.rank() == max_rank)
    fail(error_id::tensor_rank, "one_hot", "ids", numbers.describe(),
         "below rank " + std::to_string(max_rank));
  *std::copy(shape.begin(), shape.end(), sizes.begin()) = classes;
  const Tensor y = Tensor::zeros(
      tape.context(), Shape(std::span<const std::size_t>(sizes.data(), shape.rank() + 1)));
  float* row = y.mutable_data<float>();
  for (std::size_t i = 0; i < numbers.elements(); ++i, row += classes) {
    const std::int64_t id = numbers.dtype() == DType::int32
                                ? std::int64_t{numbers.data<std::int32_t>()[i]}
                                : numbers.data<std::int64_t>()[i];
    if (id < 0 || static_cast<std::uint64_t>(id) >= classes)
      fail(error_id::operator_value, "one_hot", "ids[" + std::to_string(i) + "]",
           std::to_string(id), "0 to " + std::to_string(classes) + " - 1");
    row[id] = 1;
  }
  return tape.constant(y, ids.sequences());
}

}  // namespace SOMA_NAMESPACE

namespace SOMA_NAMESPACE::detail {

// A number in (0, 1).
SOMA_INLINE double inner_unit(DrawSequence& draws) {
  return (static_cast<double>(draws.word()) + 0.5) * 0x1p-32;
}

// The sum of weights that may be drawn `count` times. Error operator.value.
SOMA_INLINE double check_weights(std::span<const float> weights, std::size_t row, std::size_t count,
                                 bool replacement) {
  double sum = 0;
  std::size_t above = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0) || std::isinf(weights[i]))
      fail(error_id::operator_value, "multinomial",
           "weights[" + std::to_string(row) + ", " + std::to_string(i) + "]",
           std::to_string(weights[i]), "finite and not below 0");
    sum += static_cast<double>(weights[i]);
    above += weights[i] > 0 ? 1u : 0u;
  }
  const std::size_t needed = replacement ? (std::min)(count, std::size_t{1}) : count;
  if (above < needed)
    fail(error_id::operator_value, "multinomial", "row " + std::to_string(row),
         std::to_string(above) + " weights above 0", std::to_string(needed) + " at least");
  return sum;
}

// With replacement: the first category at which the sum of the weights exceeds a random share.
SOMA_INLINE void draw_replaced(std::span<const float> weights, double sum, DrawSequence& draws,
                               std::span<std::int64_t> chosen) {
  for (std::int64_t& choice : chosen) {
    const double share = inner_unit(draws) * sum;
    double below = 0;
    for (std::size_t i = 0; i < weights.size() && below <= share; ++i) {
      if (weights[i] > 0) choice = static_cast<std::int64_t>(i);
      below += static_cast<double>(weights[i]);
    }
  }
}

// Each at most once: the categories whose exponential waiting times, of rates in proportion to the
// weights, end first. Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006.
SOMA_INLINE void draw_once(std::span<const float> weights, DrawSequence& draws,
                           std::span<std::int64_t> chosen) {
  std::vector<std::pair<double, std::int64_t>> times;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double time = -portable_log(inner_unit(draws)) / static_cast<double>(weights[i]);
    if (weights[i] > 0) times.emplace_back(time, static_cast<std::int64_t>(i));
  }
  std::partial_sort(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(chosen.size()),
                    times.end());
  for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = times[i].second;
}

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE Var multinomial(Tape& tape, const Var& weights, std::size_t count, std::uint32_t stream,
                            bool replacement) {
  Context& context = tape.context();
  detail::check_floating("multinomial", "weights", weights.value());
  const Tensor plain = detail::plain(context, weights.value());
  const Shape& shape = plain.shape();
  if (shape.rank() == 0)
    fail(error_id::tensor_rank, "multinomial", "weights", plain.describe(), "rank 1 or more");
  const std::size_t columns = shape.columns(), rows = shape.rows();
  Sequences batch = weights.sequences();
  if (batch.defined() && !batch.place().leads())
    fail(error_id::operator_sequences, "multinomial", "weights",
         plain.describe() + " with its batch in dimension " +
             std::to_string(batch.place().dimension),
         "the rows of the batch first");
  std::span<const std::uint64_t> keys;
  Sequences inner;
  if (batch.defined() && batch.rows() != 0) {
    inner = rows == batch.rows() ? batch : batch.with_inner_rows(context, rows / batch.rows());
    keys = inner.row_indices();
  }
  const Tensor y = Tensor::zeros(context, shape.with(shape.rank() - 1, count), DType::int64);
  const float* from = plain.data<float>();
  auto* to = y.mutable_data<std::int64_t>();
  for (std::size_t row = 0; row < rows; ++row) {
    const std::span<const float> own(from + row * columns, columns);
    const std::span<std::int64_t> chosen(to + row * count, count);
    const double sum = detail::check_weights(own, row, count, replacement);
    DrawSequence draws({.seed = tape.options().seed,
                        .stream = stream,
                        .step = tape.options().step,
                        .index = keys.empty() ? std::uint64_t{row} << 32 : keys[row]});
    if (replacement)
      detail::draw_replaced(own, sum, draws, chosen);
    else
      detail::draw_once(own, draws, chosen);
  }
  return tape.constant(y, batch);
}

SOMA_INLINE Var pad(Tape& tape, const Var& x, std::initializer_list<Padding> paddings,
                    float value) {
  if (paddings.size() > PadSetting::most)
    fail(error_id::operator_value, "pad", "paddings", std::to_string(paddings.size()),
         "at most " + std::to_string(PadSetting::most));
  PadSetting setting{.value = value};
  std::size_t i = PadSetting::most - paddings.size();
  for (const Padding& padding : paddings) {
    setting.before[i] = padding.before;
    setting.behind[i++] = padding.behind;
  }
  return tape.apply(*tape.operators().pad, setting, {x});
}

SOMA_INLINE Var stack(Tape& tape, std::span<const Var> parts, std::size_t dimension) {
  std::vector<Var> wide;
  wide.reserve(parts.size());
  for (const Var& part : parts) {
    const Shape& shape = part.shape();
    std::vector<std::size_t> sizes(shape.begin(), shape.end());
    if (dimension > sizes.size())
      fail(error_id::tensor_index, "stack", "dimension", std::to_string(dimension),
           "at most the rank of " + part.value().describe());
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(dimension), 1);
    Var one = reshape(tape, part, Shape(sizes));
    if (part.sequences().defined()) {
      BatchPlace place = part.sequences().place();
      if (place.dimension >= dimension) ++place.dimension;
      one = tape.with_sequences(one, part.sequences().at(place));
    }
    wide.push_back(one);
  }
  return tape.apply_all(*tape.operators().concatenate, dimension, wide)[0];
}

SOMA_INLINE Var stack(Tape& tape, std::initializer_list<Var> parts, std::size_t dimension) {
  return stack(tape, std::span<const Var>(parts.begin(), parts.size()), dimension);
}

SOMA_INLINE Var softmax(Tape& tape, const Var& x, std::size_t dimension) {
  if (x.shape().rank() == 0 || dimension + 1 == x.shape().rank()) return softmax(tape, x);
  const std::size_t last = x.shape().rank() - 1;
  return transpose(tape, softmax(tape, transpose(tape, x, dimension, last)), dimension, last);
}

SOMA_INLINE Var log_softmax(Tape& tape, const Var& x, std::size_t dimension) {
  if (x.shape().rank() == 0 || dimension + 1 == x.shape().rank()) return log_softmax(tape, x);
  const std::size_t last = x.shape().rank() - 1;
  return transpose(tape, log_softmax(tape, transpose(tape, x, dimension, last)), dimension, last);
}

SOMA_INLINE Var normalise(Tape& tape, const Var& x, std::size_t dimension, float epsilon) {
  detail::check_dimension("normalise", x.value(), dimension);
  const DType dtype = x.value().dtype();
  const Var wide = dtype == DType::fp32 ? x : cast(tape, x, DType::fp32);
  const Var squares = sum(tape, square(tape, wide), std::uint32_t{1} << dimension);
  // The limit stands before the root, whose slope at 0 is infinite.
  const Var least = tape.constant(Tensor::full(tape.context(), Shape{1}, epsilon * epsilon));
  const Var norms = sqrt(tape, maximum(tape, squares, least));
  Var kept = reshape(tape, norms, x.shape().with(dimension, 1));
  const Sequences& batch = x.sequences();
  if (batch.defined() && batch.place().dimension != dimension)
    kept = tape.with_sequences(kept, batch);
  const Var y = div(tape, wide, kept);
  return dtype == DType::fp32 ? y : cast(tape, y, dtype);
}

SOMA_INLINE Var vector_norm(Tape& tape, const Var& x, std::size_t dimension) {
  detail::check_dimension("vector_norm", x.value(), dimension);
  const Var wide = x.value().dtype() == DType::fp32 ? x : cast(tape, x, DType::fp32);
  const Var squares = sum(tape, square(tape, wide), std::uint32_t{1} << dimension);
  const auto number = [&](float value) {
    return tape.constant(Tensor::full(tape.context(), Shape{1}, value));
  };
  return sub(tape, sqrt(tape, maximum(tape, squares, number(0x1p-126f))), number(0x1p-63f));
}

SOMA_INLINE Var cosine_similarity(Tape& tape, const Var& a, const Var& b, std::size_t dimension,
                                  float epsilon) {
  return sum(
      tape,
      mul(tape, normalise(tape, a, dimension, epsilon), normalise(tape, b, dimension, epsilon)),
      std::uint32_t{1} << dimension);
}

SOMA_INLINE Var glu(Tape& tape, const Var& x, std::size_t dimension) {
  detail::check_dimension("glu", x.value(), dimension);
  const std::size_t size = x.shape()[dimension];
  if (size % 2 != 0)
    fail(error_id::tensor_shape, "glu", "x", x.value().describe(),
         "an even size of dimension " + std::to_string(dimension));
  return mul(tape, slice(tape, x, dimension, 0, size / 2),
             sigmoid(tape, slice(tape, x, dimension, size / 2, size)));
}

SOMA_INLINE Var gated(Tape& tape, const Var& x) {
  return tape.apply(*tape.operators().gated, {}, {x});
}

SOMA_INLINE Var average_pool2d(Tape& tape, const Var& x, const AveragePoolSetting& setting) {
  return tape.apply(*tape.operators().average_pool, setting, {x});
}

SOMA_INLINE Var adaptive_average_pool2d(Tape& tape, const Var& x, std::size_t height,
                                        std::size_t width) {
  AveragePoolSetting setting;
  setting.out_height = height;
  setting.out_width = width;
  return average_pool2d(tape, x, setting);
}

SOMA_INLINE Var conv_transpose2d(Tape& tape, const Var& x, const Var& weight, const Var& bias,
                                 const TransposedSetting& setting) {
  const Var y = tape.apply(*tape.operators().convolution_transpose, setting, {x, weight});
  if (!bias.defined()) return y;
  return add(tape, y, reshape(tape, bias, Shape{bias.shape()[0], 1, 1}));
}

SOMA_INLINE Var resize(Tape& tape, const Var& x, const ResizeSetting& setting) {
  return tape.apply(*tape.operators().resize, setting, {x});
}

SOMA_INLINE Var pixel_shuffle(Tape& tape, const Var& x, std::size_t factor) {
  const Shape& shape = x.shape();
  if (shape.rank() != 4 || factor == 0 || shape[1] % (factor * factor) != 0)
    fail(error_id::tensor_shape, "pixel_shuffle", "x", x.value().describe(),
         "[N, C, H, W] with C a multiple of " + std::to_string(factor) + " x " +
             std::to_string(factor));
  const std::size_t channels = shape[1] / (factor * factor), height = shape[2], width = shape[3];
  Var y = reshape(tape, x, Shape{shape[0], channels, factor, factor, height, width});
  y = transpose(tape, y, 2, 4);  // [N, C, H, column, row, W]
  y = transpose(tape, y, 3, 4);  // [N, C, H, row, column, W]
  y = transpose(tape, y, 4, 5);  // [N, C, H, row, W, column]
  return reshape(tape, y, Shape{shape[0], channels, height * factor, width * factor});
}

}  // namespace SOMA_NAMESPACE
