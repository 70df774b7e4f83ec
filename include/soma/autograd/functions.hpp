#pragma once
// The functions that models are written with: each function applies one operator on a tape. The
// operator's file in ops/ has shapes, errors and formulas.

#include <soma/autograd/recompute.hpp>
#include <soma/autograd/tape.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/settings.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace soma {

// ---- element by element

inline Var neg(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::negate), {}, {x});
}
inline Var abs(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::absolute), {}, {x});
}
inline Var square(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::square), {}, {x});
}
inline Var sqrt(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::square_root), {}, {x});
}
inline Var reciprocal(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::reciprocal), {}, {x});
}
inline Var exp(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::exponential), {}, {x});
}
inline Var log(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::logarithm), {}, {x});
}
inline Var sin(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::sine), {}, {x});
}
inline Var cos(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::cosine), {}, {x});
}
inline Var relu(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::relu), {}, {x});
}
inline Var gelu(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::gelu), {}, {x});
}
inline Var gelu_tanh(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::gelu_tanh), {}, {x});
}
inline Var tanh(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::tanh), {}, {x});
}
inline Var sigmoid(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::sigmoid), {}, {x});
}
inline Var silu(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::silu), {}, {x});
}
inline Var softplus(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::softplus), {}, {x});
}
inline Var gelu_sigmoid(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::gelu_sigmoid), {}, {x});
}
inline Var gelu_clipped(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::gelu_clipped), {}, {x});
}
inline Var mish(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::mish), {}, {x});
}
inline Var leaky_relu(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::leaky_relu), {}, {x});
}
inline Var relu6(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::relu6), {}, {x});
}
inline Var relu_squared(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::relu_squared), {}, {x});
}
inline Var laplace(Tape& tape, const Var& x) {
  return tape.apply(tape.operators().of(Unary::laplace), {}, {x});
}

// With broadcasting.
inline Var add(Tape& tape, const Var& a, const Var& b) {
  return tape.apply(tape.operators().of(Binary::add), {}, {a, b});
}
inline Var sub(Tape& tape, const Var& a, const Var& b) {
  return tape.apply(tape.operators().of(Binary::subtract), {}, {a, b});
}
inline Var mul(Tape& tape, const Var& a, const Var& b) {
  return tape.apply(tape.operators().of(Binary::multiply), {}, {a, b});
}
inline Var div(Tape& tape, const Var& a, const Var& b) {
  return tape.apply(tape.operators().of(Binary::divide), {}, {a, b});
}
// maximum and minimum: the gradient goes to the chosen input; if both inputs are equal, to the
// first.
inline Var maximum(Tape& tape, const Var& a, const Var& b) {
  return tape.apply(tape.operators().of(Binary::maximum), {}, {a, b});
}
inline Var minimum(Tape& tape, const Var& a, const Var& b) {
  return tape.apply(tape.operators().of(Binary::minimum), {}, {a, b});
}

// The setting of a dropout site on this tape: its seed and step, or no dropout if the tape is not
// training.
inline DropoutSetting dropout_setting(const Tape& tape, float probability, std::uint32_t stream) {
  if (!tape.options().training) return {};
  return {probability,
          {.seed = tape.options().seed, .stream = stream, .step = tape.options().step}};
}
// Each site has a stream of its own: stream_id(module path, "dropout").
inline Var dropout(Tape& tape, const Var& x, float probability, std::uint32_t stream) {
  const DropoutSetting setting = dropout_setting(tape, probability, stream);
  return setting.probability == 0 ? x : tape.apply(*tape.operators().dropout, setting, {x});
}

// ---- products

inline Var matmul(Tape& tape, const Var& a, const Var& b, const MatmulSetting& setting = {}) {
  return tape.apply(*tape.operators().matmul, setting, {a, b});
}
// dropout(activation(x weight^T + bias)) + residual. bias and residual are optional.
inline Var linear(Tape& tape, const Var& x, const Var& weight, const Var& bias = {},
                  const LinearSetting& setting = {}, const Var& residual = {}) {
  return tape.apply(*tape.operators().linear, setting, {x, weight, bias, residual});
}
inline Var conv2d(Tape& tape, const Var& x, const Var& weight, const Var& bias = {},
                  const ConvolutionSetting& setting = {}) {
  return tape.apply(*tape.operators().convolution, setting, {x, weight, bias});
}
inline Var max_pool2d(Tape& tape, const Var& x, const MaxPoolSetting& setting = {}) {
  return tape.apply(*tape.operators().max_pool, setting, {x});
}
// `qkv` holds keys and values alone if `queries` are given. `mask` has a flag for each query and
// key of a sequence (ops/attention/attention.hpp).
inline Var attention(Tape& tape, const Var& qkv, const AttentionSetting& setting,
                     const Var& queries = {}, const Var& mask = {}) {
  const Var y = tape.apply(*tape.operators().attention, setting, {qkv, queries, mask});
  return setting.first_rows ? tape.with_sequences(y, qkv.sequences().summary(tape.context())) : y;
}

// ---- rows

inline Var embedding(Tape& tape, const Var& table, const Var& ids,
                     const EmbeddingSetting& setting = {}) {
  return tape.apply(*tape.operators().embedding, setting, {table, ids});
}
inline Var layer_norm(Tape& tape, const Var& x, const Var& gamma, const Var& beta,
                      float epsilon = 1e-5f) {
  return tape.apply(*tape.operators().norm, NormSetting{epsilon, false}, {x, gamma, beta});
}
inline Var rms_norm(Tape& tape, const Var& x, const Var& gamma, float epsilon = 1e-5f) {
  return tape.apply(*tape.operators().norm, NormSetting{epsilon, true}, {x, gamma});
}
inline Var softmax(Tape& tape, const Var& x) {
  return tape.apply(*tape.operators().softmax, SoftmaxSetting{false}, {x});
}
inline Var log_softmax(Tape& tape, const Var& x) {
  return tape.apply(*tape.operators().softmax, SoftmaxSetting{true}, {x});
}

// ---- losses and reductions

inline Var cross_entropy(Tape& tape, const Var& logits, const Var& labels,
                         const CrossEntropySetting& setting = {}) {
  return tape.apply(*tape.operators().cross_entropy, setting, {logits, labels});
}
inline Var mse_loss(Tape& tape, const Var& x, const Var& target,
                    LossReduction reduction = LossReduction::mean) {
  return tape.apply(*tape.operators().element_loss,
                    ElementLossSetting{ElementLoss::squared_error, reduction, 0}, {x, target});
}
inline Var binary_cross_entropy_with_logits(Tape& tape, const Var& x, const Var& target,
                                            LossReduction reduction = LossReduction::mean) {
  return tape.apply(*tape.operators().element_loss,
                    ElementLossSetting{ElementLoss::binary_cross_entropy_logits, reduction, 0},
                    {x, target});
}
// Over all dimensions, or over the dimensions whose bits are set.
inline Var sum(Tape& tape, const Var& x, std::uint32_t dimensions = ~std::uint32_t{0}) {
  return tape.apply(*tape.operators().reduce, ReduceSetting{dimensions, false}, {x});
}
inline Var mean(Tape& tape, const Var& x, std::uint32_t dimensions = ~std::uint32_t{0}) {
  return tape.apply(*tape.operators().reduce, ReduceSetting{dimensions, true}, {x});
}

// ---- choosing and arranging

inline Var reshape(Tape& tape, const Var& x, const Shape& shape) {
  return tape.apply(*tape.operators().reshape, ReshapeSetting{shape}, {x});
}
inline Var transpose(Tape& tape, const Var& x, std::size_t a, std::size_t b) {
  return tape.apply(*tape.operators().transpose, TransposeSetting{a, b}, {x});
}
inline Var slice(Tape& tape, const Var& x, std::size_t dimension, std::size_t begin,
                 std::size_t end = to_end, std::size_t step = 1) {
  return tape.apply(*tape.operators().slice, SliceSetting{dimension, begin, end, step}, {x});
}
inline Var concatenate(Tape& tape, std::initializer_list<Var> parts, std::size_t dimension) {
  return tape.apply(*tape.operators().concatenate, dimension, parts);
}
// The first row of each sequence: [rows, C] to [sequences, C].
inline Var sequence_first(Tape& tape, const Var& x) {
  const Var y = tape.apply(*tape.operators().sequence_first, {}, {x});
  return tape.with_sequences(y, x.sequences().summary(tape.context()));
}
inline Var cast(Tape& tape, const Var& x, DType dtype, const Rounding& rounding = {},
                const Draw& draw = {}) {
  return tape.apply(*tape.operators().cast, CastSetting{dtype, rounding, draw}, {x});
}

}  // namespace soma
