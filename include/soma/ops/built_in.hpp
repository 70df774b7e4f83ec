#pragma once
// BuiltInOperators: soma's own operators, as a context knows them. Units that use operators include
// this table; ops/records.hpp brings the operators themselves to the units that compile them.
//
// Where a unit has kernels of its own (base/config.hpp), the members are static: a call names its
// operator at compile time, and the unit compiles no other.

#include <soma/kernels/element/args.hpp>
#include <soma/ops/operator.hpp>

#include <cstddef>
#include <span>

namespace SOMA_NAMESPACE {

namespace ops {

// Records that are templates: members, because g++ instantiates these only where they are used.
template <Unary function>
struct OfUnary {
  static const Operator record;
};
template <Binary function>
struct OfBinary {
  static const Operator record;
};
template <class Function>
struct Parametric {
  static const Operator record;
};

}  // namespace ops

#if SOMA_WHOLE_TABLE

struct BuiltInOperators {
  const Operator* unary[unary_count];
  const Operator* binary[binary_count];
  const Operator *attention, *cast, *concatenate, *convolution, *cross_entropy, *dropout,
      *element_loss, *embedding, *linear, *matmul, *max_pool, *norm, *quantize,
      *quantized_convolution, *quantized_linear, *reduce, *reshape, *sequence_first, *slice,
      *softmax, *transpose, *gru, *lstm, *rotary, *sgd_step, *adam_step, *lamb_step, *gather, *pad,
      *top_k, *where, *average_pool, *convolution_transpose, *batch_norm, *nll_loss, *cosine_loss,
      *rms_step, *adafactor_step, *cumsum, *resize, *scatter_add, *sequence_pool, *rnn, *ctc_loss,
      *gated, *head_loss, *clamp, *power, *leaky_relu;
  std::span<const Operator* const> (*all)();  // these, and those that their gradients use

  // Further functions of a tape: adding gradients in the order in which they come; all rows of a
  // gradient; the test that a tensor is free of NaN and infinity.
  void (*accumulate)(Context& context, Gradient& total, Gradient more);
  Tensor (*to_dense)(Context& context, const Gradient& gradient, const Shape& shape);
  bool (*all_finite)(Context& context, const Tensor& tensor);

  const Operator& of(Unary function) const;
  const Operator& of(Binary function) const;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/ops/impl/built_in.ipp>
#endif

#else

namespace detail {
struct Clamp;  // ops/element/parametric.hpp
struct Power;
struct Leaky;
void accumulate(Context& context, Gradient& total, Gradient more);
Tensor to_dense(Context& context, const Gradient& gradient, const Shape& shape);
std::span<const Operator* const> all_operators();
}  // namespace detail
bool all_finite(Context& context, const Tensor& tensor);
namespace ops {
extern const Operator attention, cast, concatenate, convolution, cross_entropy, dropout,
    element_loss, embedding, linear, matmul, max_pool, norm, quantize, quantized_convolution,
    quantized_linear, reduce, reshape, sequence_first, slice, softmax, transpose, gru, lstm, rotary,
    sgd_step, adam_step, lamb_step, gather, pad, top_k, where, average_pool, convolution_transpose,
    batch_norm, nll_loss, cosine_loss, rms_step, adafactor_step, cumsum, resize, scatter_add,
    sequence_pool, rnn, ctc_loss, gated, head_loss;
}  // namespace ops

struct BuiltInOperators {
  static constexpr const Operator* attention = &ops::attention;
  static constexpr const Operator* cast = &ops::cast;
  static constexpr const Operator* concatenate = &ops::concatenate;
  static constexpr const Operator* convolution = &ops::convolution;
  static constexpr const Operator* cross_entropy = &ops::cross_entropy;
  static constexpr const Operator* dropout = &ops::dropout;
  static constexpr const Operator* element_loss = &ops::element_loss;
  static constexpr const Operator* embedding = &ops::embedding;
  static constexpr const Operator* linear = &ops::linear;
  static constexpr const Operator* matmul = &ops::matmul;
  static constexpr const Operator* max_pool = &ops::max_pool;
  static constexpr const Operator* norm = &ops::norm;
  static constexpr const Operator* quantize = &ops::quantize;
  static constexpr const Operator* quantized_convolution = &ops::quantized_convolution;
  static constexpr const Operator* quantized_linear = &ops::quantized_linear;
  static constexpr const Operator* reduce = &ops::reduce;
  static constexpr const Operator* reshape = &ops::reshape;
  static constexpr const Operator* sequence_first = &ops::sequence_first;
  static constexpr const Operator* slice = &ops::slice;
  static constexpr const Operator* softmax = &ops::softmax;
  static constexpr const Operator* transpose = &ops::transpose;
  static constexpr const Operator* gru = &ops::gru;
  static constexpr const Operator* lstm = &ops::lstm;
  static constexpr const Operator* rotary = &ops::rotary;
  static constexpr const Operator* sgd_step = &ops::sgd_step;
  static constexpr const Operator* adam_step = &ops::adam_step;
  static constexpr const Operator* lamb_step = &ops::lamb_step;
  static constexpr const Operator* gather = &ops::gather;
  static constexpr const Operator* pad = &ops::pad;
  static constexpr const Operator* top_k = &ops::top_k;
  static constexpr const Operator* where = &ops::where;
  static constexpr const Operator* average_pool = &ops::average_pool;
  static constexpr const Operator* convolution_transpose = &ops::convolution_transpose;
  static constexpr const Operator* batch_norm = &ops::batch_norm;
  static constexpr const Operator* nll_loss = &ops::nll_loss;
  static constexpr const Operator* cosine_loss = &ops::cosine_loss;
  static constexpr const Operator* rms_step = &ops::rms_step;
  static constexpr const Operator* adafactor_step = &ops::adafactor_step;
  static constexpr const Operator* cumsum = &ops::cumsum;
  static constexpr const Operator* resize = &ops::resize;
  static constexpr const Operator* scatter_add = &ops::scatter_add;
  static constexpr const Operator* sequence_pool = &ops::sequence_pool;
  static constexpr const Operator* rnn = &ops::rnn;
  static constexpr const Operator* ctc_loss = &ops::ctc_loss;
  static constexpr const Operator* gated = &ops::gated;
  static constexpr const Operator* head_loss = &ops::head_loss;
  static constexpr const Operator* clamp = &ops::Parametric<detail::Clamp>::record;
  static constexpr const Operator* power = &ops::Parametric<detail::Power>::record;
  static constexpr const Operator* leaky_relu = &ops::Parametric<detail::Leaky>::record;
  static constexpr auto all = &detail::all_operators;
  static constexpr auto accumulate = &detail::accumulate;
  static constexpr auto to_dense = &detail::to_dense;
  static constexpr auto all_finite = &soma::all_finite;

  const Operator& of(Unary function) const;  // in ops/all.hpp, like the next
  const Operator& of(Binary function) const;
};

}  // namespace SOMA_NAMESPACE

#endif
