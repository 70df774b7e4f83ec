#pragma once
// Functions beyond those of autograd/functions.hpp: element-wise functions with a setting, and
// functions that choose and arrange elements. Dimensions are counted from the first, which is 0.

#include <soma/autograd/functions.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/image/settings.hpp>

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE {

// ---- element by element

// x for x >= 0, else exp(x) - 1. arXiv 1511.07289, with alpha 1.
Var elu(Tape& tape, const Var& x);
// (x + 3) / 6, limited to 0 .. 1; hard_swish: x times that; hard_tanh: x, limited to -1 .. 1.
Var hard_sigmoid(Tape& tape, const Var& x);
Var hard_swish(Tape& tape, const Var& x);
Var hard_tanh(Tape& tape, const Var& x);
// x for x >= 0, else slope x.
Var leaky_relu(Tape& tape, const Var& x, float slope);
// x, limited to low .. high. Error operator.value: low above high.
Var clamp(Tape& tape, const Var& x, float low, float high);
// x^exponent; NaN for x below zero, unless the exponent is whole. Some tens of nanoseconds an
// element: square(), sqrt() and reciprocal() are faster.
Var pow(Tape& tape, const Var& x, float exponent);

// ---- choosing

// a where the condition (bool, uint8 or int8) is not 0, else b. a and b have one type; with
// broadcasting.
Var where(Tape& tape, const Var& condition, const Var& a, const Var& b);
// Picks elements along a dimension by index (int32 or int64) of x's rank, as torch.gather. If an
// element is picked several times, its gradients are added in their order. Error operator.value: an
// index outside of the dimension.
Var gather(Tape& tape, const Var& x, std::size_t dimension, const Var& index);
// Picks slices along a dimension by index [n] (int32 or int64), as torch.index_select. It is an
// embedding with x as the table: if the indices form the rows of a batch, sums of the gradient
// follow the batch's shards. Along dimension 0 the gradient is sparse and holds the touched slices
// only. Errors tensor.rank, and those of embedding().
Var index_select(Tape& tape, const Var& x, std::size_t dimension, const Var& index);

// The result of max(), min() and top_k(): elements, and their indices along the dimension (int64,
// constants).
struct Extremes {
  Var values, indices;
};
// The k largest elements along a dimension, in falling order, or the k smallest, in rising order.
// Among equal elements the first comes first; NaN comes before all numbers. The gradient goes to
// the chosen elements. Error operator.value: k above the size.
Extremes top_k(Tape& tape, const Var& x, std::size_t k, std::size_t dimension,
               bool smallest = false);
namespace detail {

Extremes one_extreme(Tape& tape, const Var& x, std::size_t dimension, bool smallest);

}  // namespace detail
// The largest, or the smallest, element along a dimension, which disappears. The first of equal
// elements wins, and NaN wins over numbers.
Extremes max(Tape& tape, const Var& x, std::size_t dimension);
Extremes min(Tape& tape, const Var& x, std::size_t dimension);
// The index of the largest element along a dimension, int64: a constant.
Var argmax(Tape& tape, const Var& x, std::size_t dimension);

// All elements along a dimension in rising (or falling) order, as top_k() gives them.
Extremes sort(Tape& tape, const Var& x, std::size_t dimension, bool descending = false);
// Their indices alone, int64: a constant.
Var argsort(Tape& tape, const Var& x, std::size_t dimension, bool descending = false);

// x with values added where an index of x's rank (int32 or int64) says, as torch.scatter_add: along
// `dimension`, in ascending order. Along the rows of a batch the result has no batch: of a part of
// a batch it has the sums of that part. Error operator.value: an index outside of the dimension.
Var scatter_add(Tape& tape, const Var& x, std::size_t dimension, const Var& index,
                const Var& values);
// Sums of the elements up to each along a dimension, computed in double. Along the rows of a batch
// as scatter_add().
Var cumsum(Tape& tape, const Var& x, std::size_t dimension);

// Class ids (int32 or int64) [...] to fp32 [..., classes]: 1 for the own class, else 0. A constant.
// Errors operator.value (an id that is no class), tensor.rank.
Var one_hot(Tape& tape, const Var& ids, std::size_t classes);
// `count` columns of each row of weights [..., C], int64 [..., count], drawn with probabilities in
// proportion to the weights: with replacement, or each at most once. A constant. Draws depend on
// the tape's seed and step, `stream`, and the row's place in its batch, as those of dropout().
// Errors operator.value: a weight that is not finite or below 0, a row with fewer weights above 0
// than are drawn; tensor.rank (a scalar); operator.sequences (a batch that is not in dimension 0).
Var multinomial(Tape& tape, const Var& weights, std::size_t count, std::uint32_t stream,
                bool replacement = false);

// ---- arranging

// The number of elements with the padding value before and behind a dimension.
struct Padding {
  std::size_t before = 0, behind = 0;
};
// x, padded with `value`: paddings of its last dimensions, in their order; at most four. Errors
// operator.value, tensor.rank.
Var pad(Tape& tape, const Var& x, std::initializer_list<Padding> paddings, float value = 0);
// Tensors of one shape and type along a new dimension. At most 32. Errors tensor.index, and those
// of concatenate().
Var stack(Tape& tape, std::span<const Var> parts, std::size_t dimension = 0);
Var stack(Tape& tape, std::initializer_list<Var> parts, std::size_t dimension = 0);

// Softmax and log softmax over any dimension.
Var softmax(Tape& tape, const Var& x, std::size_t dimension);
Var log_softmax(Tape& tape, const Var& x, std::size_t dimension);

// ---- rows as vectors

// x over its Euclidean norm along a dimension, or over epsilon where the norm is smaller.
Var normalise(Tape& tape, const Var& x, std::size_t dimension, float epsilon = 1e-12f);
// The Euclidean norm along a dimension, which disappears; fp32. A vector of zeros has no gradient.
// Norms below 2^-40 lose digits: 2^-63 is added before the root and subtracted behind it.
Var vector_norm(Tape& tape, const Var& x, std::size_t dimension);
// The sum of products of a and b, both normalised, along a dimension, which disappears.
Var cosine_similarity(Tape& tape, const Var& a, const Var& b, std::size_t dimension,
                      float epsilon = 1e-8f);
// The first half of x along a dimension, times the sigmoid of the second half. Error tensor.shape:
// an odd size.
Var glu(Tape& tape, const Var& x, std::size_t dimension);
// The first half of the columns of x [..., 2 I], passed through silu, times the second half, in one
// pass: [..., I]. Error tensor.shape: an odd number of columns.
Var gated(Tape& tape, const Var& x);

// ---- images [N, C, H, W]

// The mean of each window; adaptive_average_pool2d: windows that cover the image evenly.
Var average_pool2d(Tape& tape, const Var& x, const AveragePoolSetting& setting = {});
Var adaptive_average_pool2d(Tape& tape, const Var& x, std::size_t height, std::size_t width);
// x [N, C, H, W], weight [C, O / groups, kernel height, kernel width], bias [O]; y [N, O, H', W']
// with H' = (H - 1) stride - padding + (kernel - 1) dilation + 1 + extra.
Var conv_transpose2d(Tape& tape, const Var& x, const Var& weight, const Var& bias = {},
                     const TransposedSetting& setting = {});
// Images in another size. Error operator.value: a size of 0.
Var resize(Tape& tape, const Var& x, const ResizeSetting& setting);
// [N, C factor^2, H, W] to [N, C, H factor, W factor], as torch.pixel_shuffle. Error tensor.shape.
Var pixel_shuffle(Tape& tape, const Var& x, std::size_t factor);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/autograd/impl/choosing.ipp>
#endif
