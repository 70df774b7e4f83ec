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

namespace SOMA_NAMESPACE {

// ---- element by element

Var neg(Tape& tape, const Var& x);
Var abs(Tape& tape, const Var& x);
Var square(Tape& tape, const Var& x);
Var sqrt(Tape& tape, const Var& x);
Var reciprocal(Tape& tape, const Var& x);
Var exp(Tape& tape, const Var& x);
Var log(Tape& tape, const Var& x);
Var sin(Tape& tape, const Var& x);
Var cos(Tape& tape, const Var& x);
Var relu(Tape& tape, const Var& x);
Var gelu(Tape& tape, const Var& x);
Var gelu_tanh(Tape& tape, const Var& x);
Var tanh(Tape& tape, const Var& x);
Var sigmoid(Tape& tape, const Var& x);
Var silu(Tape& tape, const Var& x);
Var softplus(Tape& tape, const Var& x);
Var gelu_sigmoid(Tape& tape, const Var& x);
Var gelu_clipped(Tape& tape, const Var& x);
Var mish(Tape& tape, const Var& x);
Var leaky_relu(Tape& tape, const Var& x);
Var relu6(Tape& tape, const Var& x);
Var relu_squared(Tape& tape, const Var& x);
Var laplace(Tape& tape, const Var& x);

// With broadcasting.
Var add(Tape& tape, const Var& a, const Var& b);
Var sub(Tape& tape, const Var& a, const Var& b);
Var mul(Tape& tape, const Var& a, const Var& b);
Var div(Tape& tape, const Var& a, const Var& b);
// maximum and minimum: the gradient goes to the chosen input; if both inputs are equal, to the
// first.
Var maximum(Tape& tape, const Var& a, const Var& b);
Var minimum(Tape& tape, const Var& a, const Var& b);

// The setting of a dropout site on this tape: its seed and step, or no dropout if the tape is not
// training.
DropoutSetting dropout_setting(const Tape& tape, float probability, std::uint32_t stream);
// Each site has a stream of its own: stream_id(module path, "dropout").
Var dropout(Tape& tape, const Var& x, float probability, std::uint32_t stream);

// ---- products

Var matmul(Tape& tape, const Var& a, const Var& b, const MatmulSetting& setting = {});
// dropout(activation(x weight^T + bias)) + residual. bias and residual are optional.
Var linear(Tape& tape, const Var& x, const Var& weight, const Var& bias = {},
           const LinearSetting& setting = {}, const Var& residual = {});
Var conv2d(Tape& tape, const Var& x, const Var& weight, const Var& bias = {},
           const ConvolutionSetting& setting = {});
Var max_pool2d(Tape& tape, const Var& x, const MaxPoolSetting& setting = {});
// `qkv` holds keys and values alone if `queries` are given. `mask` has a flag for each query and
// key of a sequence (ops/attention/attention.hpp).
Var attention(Tape& tape, const Var& qkv, const AttentionSetting& setting, const Var& queries = {},
              const Var& mask = {});

// ---- rows

Var embedding(Tape& tape, const Var& table, const Var& ids, const EmbeddingSetting& setting = {});
Var layer_norm(Tape& tape, const Var& x, const Var& gamma, const Var& beta, float epsilon = 1e-5f);
Var rms_norm(Tape& tape, const Var& x, const Var& gamma, float epsilon = 1e-5f);
Var softmax(Tape& tape, const Var& x);
Var log_softmax(Tape& tape, const Var& x);

// ---- losses and reductions

Var cross_entropy(Tape& tape, const Var& logits, const Var& labels,
                  const CrossEntropySetting& setting = {});
Var mse_loss(Tape& tape, const Var& x, const Var& target,
             LossReduction reduction = LossReduction::mean);
Var binary_cross_entropy_with_logits(Tape& tape, const Var& x, const Var& target,
                                     LossReduction reduction = LossReduction::mean);
// The same loss whose positives weigh `positive_weight` as much: one weight, or one for each of the
// last dimension. Error tensor.shape: the target has another shape.
Var weighted_binary_cross_entropy_with_logits(Tape& tape, const Var& x, const Var& target,
                                              const Var& positive_weight,
                                              LossReduction reduction = LossReduction::mean);
// Over all dimensions, or over the dimensions whose bits are set.
Var sum(Tape& tape, const Var& x, std::uint32_t dimensions = ~std::uint32_t{0});
Var mean(Tape& tape, const Var& x, std::uint32_t dimensions = ~std::uint32_t{0});

// ---- choosing and arranging

Var reshape(Tape& tape, const Var& x, const Shape& shape);
Var transpose(Tape& tape, const Var& x, std::size_t a, std::size_t b);
Var slice(Tape& tape, const Var& x, std::size_t dimension, std::size_t begin,
          std::size_t end = to_end, std::size_t step = 1);
Var concatenate(Tape& tape, std::initializer_list<Var> parts, std::size_t dimension);
// The first row of each sequence: [rows, C] to [sequences, C].
Var sequence_first(Tape& tape, const Var& x);
Var cast(Tape& tape, const Var& x, DType dtype, const Rounding& rounding = {},
         const Draw& draw = {});

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/autograd/impl/functions.ipp>
#endif
