#pragma once
// Functions beyond those of autograd/functions.hpp: element-wise functions with a setting, and
// functions that choose and arrange elements. Dimensions are counted from the first, which is 0.

#include <soma/autograd/functions.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/ops/basic.hpp>
#include <soma/ops/built_in.hpp>

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace soma {

// ---- element by element

// x for x >= 0, else exp(x) - 1. arXiv 1511.07289, with alpha 1.
inline Var elu(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::elu), {}, {x});
}
// (x + 3) / 6, limited to 0 .. 1; hard_swish: x times that; hard_tanh: x, limited to -1 .. 1.
inline Var hard_sigmoid(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::hard_sigmoid), {}, {x});
}
inline Var hard_swish(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::hard_swish), {}, {x});
}
inline Var hard_tanh(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::hard_tanh), {}, {x});
}
// x for x >= 0, else slope x.
inline Var leaky_relu(Tape& tape, const Var& x, float slope) {
  return tape.apply(*tape.operators().basic->leaky_relu, LeakySetting{slope}, {x});
}
// x, limited to low .. high. Error operator.value: low above high.
inline Var clamp(Tape& tape, const Var& x, float low, float high) {
  return tape.apply(*tape.operators().basic->clamp, ClampSetting{low, high}, {x});
}
// x^exponent; NaN for x below zero, unless the exponent is whole. Some tens of nanoseconds an
// element: square(), sqrt() and reciprocal() are faster.
inline Var pow(Tape& tape, const Var& x, float exponent) {
  return tape.apply(*tape.operators().basic->power, PowerSetting{exponent}, {x});
}

// ---- choosing

// a where the condition (bool, uint8 or int8) is not 0, else b. a and b have one type; with
// broadcasting.
inline Var where(Tape& tape, const Var& condition, const Var& a, const Var& b) {
  return tape.apply(*tape.operators().basic->where, {}, {condition, a, b});
}
// Picks elements along a dimension by index (int32 or int64) of x's rank, as torch.gather. If an
// element is picked several times, its gradients are added in their order. Error operator.value: an
// index outside of the dimension.
inline Var gather(Tape& tape, const Var& x, std::size_t dimension, const Var& index) {
  return tape.apply(*tape.operators().basic->gather, GatherSetting{dimension}, {x, index});
}
// Picks slices along a dimension by index [n] (int32 or int64), as torch.index_select. It is an
// embedding with x as the table: if the indices form the rows of a batch, sums of the gradient
// follow the batch's shards. Along dimension 0 the gradient is sparse and holds the touched slices
// only.
inline Var index_select(Tape& tape, const Var& x, std::size_t dimension, const Var& index) {
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
  const Var y = reshape(tape, chosen, shape.with(0, index.shape()[0]));
  return dimension == 0 ? y : transpose(tape, y, 0, dimension);
}

// The result of max(), min() and top_k(): elements, and their indices along the dimension (int64,
// constants).
struct Extremes {
  Var values, indices;
};
// The k largest elements along a dimension, in falling order, or the k smallest, in rising order.
// Among equal elements the first comes first; NaN comes before all numbers. The gradient goes to
// the chosen elements. Error operator.value: k above the size.
inline Extremes top_k(Tape& tape, const Var& x, std::size_t k, std::size_t dimension,
                      bool smallest = false) {
  const Var input[] = {x};
  const VarOutputs y =
      tape.apply_all(*tape.operators().basic->top_k, TopKSetting{dimension, k, smallest}, input);
  return {y[0], tape.detach(y[1])};
}
namespace detail {

inline Extremes one_extreme(Tape& tape, const Var& x, std::size_t dimension, bool smallest) {
  const Extremes found = top_k(tape, x, 1, dimension, smallest);
  const Shape shape = found.values.shape().without(dimension);
  return {reshape(tape, found.values, shape), reshape(tape, found.indices, shape)};
}

}  // namespace detail
// The largest, or the smallest, element along a dimension, which disappears. The first of equal
// elements wins, and NaN wins over numbers.
inline Extremes max(Tape& tape, const Var& x, std::size_t dimension) {
  return detail::one_extreme(tape, x, dimension, false);
}
inline Extremes min(Tape& tape, const Var& x, std::size_t dimension) {
  return detail::one_extreme(tape, x, dimension, true);
}
// The index of the largest element along a dimension, int64: a constant.
inline Var argmax(Tape& tape, const Var& x, std::size_t dimension) {
  return detail::one_extreme(tape, tape.detach(x), dimension, false).indices;
}

// ---- arranging

// The number of elements with the padding value before and behind a dimension.
struct Padding {
  std::size_t before = 0, behind = 0;
};
// x, padded with `value`: paddings of its last dimensions, in their order; at most four. Errors
// operator.value, tensor.rank.
inline Var pad(Tape& tape, const Var& x, std::initializer_list<Padding> paddings, float value = 0) {
  if (paddings.size() > PadSetting::most)
    fail(error_id::operator_value, "pad", "paddings", std::to_string(paddings.size()),
         "at most " + std::to_string(PadSetting::most));
  PadSetting setting{.value = value};
  std::size_t i = PadSetting::most - paddings.size();
  for (const Padding& padding : paddings) {
    setting.before[i] = padding.before;
    setting.behind[i++] = padding.behind;
  }
  return tape.apply(*tape.operators().basic->pad, setting, {x});
}
// Tensors of one shape and type along a new dimension. At most 32. Errors as concatenate().
inline Var stack(Tape& tape, std::span<const Var> parts, std::size_t dimension = 0) {
  std::vector<Var> wide;
  wide.reserve(parts.size());
  for (const Var& part : parts) {
    const Shape& shape = part.shape();
    std::vector<std::size_t> sizes(shape.begin(), shape.end());
    if (dimension > sizes.size())
      fail(error_id::tensor_index, "stack", "dimension", std::to_string(dimension),
           "at most the rank of " + part.value().describe());
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(dimension), 1);
    wide.push_back(reshape(tape, part, Shape(sizes)));
  }
  return tape.apply_all(*tape.operators().concatenate, dimension, wide)[0];
}
inline Var stack(Tape& tape, std::initializer_list<Var> parts, std::size_t dimension = 0) {
  return stack(tape, std::span<const Var>(parts.begin(), parts.size()), dimension);
}

// Softmax and log softmax over any dimension.
inline Var softmax(Tape& tape, const Var& x, std::size_t dimension) {
  if (x.shape().rank() == 0 || dimension + 1 == x.shape().rank()) return softmax(tape, x);
  const std::size_t last = x.shape().rank() - 1;
  return transpose(tape, softmax(tape, transpose(tape, x, dimension, last)), dimension, last);
}
inline Var log_softmax(Tape& tape, const Var& x, std::size_t dimension) {
  if (x.shape().rank() == 0 || dimension + 1 == x.shape().rank()) return log_softmax(tape, x);
  const std::size_t last = x.shape().rank() - 1;
  return transpose(tape, log_softmax(tape, transpose(tape, x, dimension, last)), dimension, last);
}

// ---- images [N, C, H, W]

// The mean of each window; adaptive_average_pool2d: windows that cover the image evenly.
inline Var average_pool2d(Tape& tape, const Var& x, const AveragePoolSetting& setting = {}) {
  return tape.apply(*tape.operators().basic->average_pool, setting, {x});
}
inline Var adaptive_average_pool2d(Tape& tape, const Var& x, std::size_t height,
                                   std::size_t width) {
  AveragePoolSetting setting;
  setting.out_height = height;
  setting.out_width = width;
  return average_pool2d(tape, x, setting);
}
// x [N, C, H, W], weight [C, O, kernel height, kernel width], bias [O]; y [N, O, H', W'] with
// H' = (H - 1) stride - 2 pad + kernel + extra.
inline Var conv_transpose2d(Tape& tape, const Var& x, const Var& weight, const Var& bias = {},
                            const TransposedSetting& setting = {}) {
  const Var y = tape.apply(*tape.operators().basic->convolution_transpose, setting, {x, weight});
  if (!bias.defined()) return y;
  return add(tape, y, reshape(tape, bias, Shape{bias.shape()[0], 1, 1}));
}

}  // namespace soma
