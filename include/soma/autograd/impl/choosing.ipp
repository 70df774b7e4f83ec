#pragma once
// The functions of choosing.hpp.

#include <soma/autograd/choosing.hpp>

#include <soma/autograd/functions.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/ops/choose/settings.hpp>
#include <soma/ops/element/settings.hpp>
#include <soma/ops/image/settings.hpp>
#include <soma/ops/records.hpp>

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
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
  return tape.apply(*tape.operators().gather, GatherSetting{dimension}, {x, index});
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

}  // namespace SOMA_NAMESPACE
