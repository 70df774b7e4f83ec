#pragma once
// BuiltInOperators: soma's own operators, as a context knows them. Units that use operators include
// this table; only a unit that makes a context (or soma::dispatch) compiles the operators.

#include <soma/kernels/element/args.hpp>
#include <soma/ops/operator.hpp>

#include <cstddef>
#include <span>

namespace SOMA_NAMESPACE {

struct BuiltInOperators {
  const Operator* unary[unary_count];
  const Operator* binary[binary_count];
  const Operator *attention, *cast, *concatenate, *convolution, *cross_entropy, *dropout,
      *element_loss, *embedding, *linear, *matmul, *max_pool, *norm, *quantize, *quantized_linear,
      *reduce, *reshape, *sequence_first, *slice, *softmax, *transpose;
  const Operator *gru, *lstm, *rotary;
  const Operator *sgd_step, *adam_step, *lamb_step;
  const Operator *average_pool, *batch_norm, *clamp, *convolution_transpose, *cosine_loss, *gather,
      *leaky_relu, *nll_loss, *pad, *power, *top_k, *where;
  const Operator *rms_step, *adafactor_step;
  std::span<const Operator* const> all;  // these, and those that their gradients use

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
