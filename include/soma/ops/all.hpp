#pragma once
// All built-in operators. Only units that compile operators include this header (ops/records.hpp).

// First: it declares the records, and a declaration behind a record's definition makes g++ compile
// the record although nothing uses it.
#include <soma/ops/built_in.hpp>

#include <soma/ops/attention/attention.hpp>
#include <soma/ops/choose/cumsum.hpp>
#include <soma/ops/choose/gather.hpp>
#include <soma/ops/choose/pad.hpp>
#include <soma/ops/choose/scatter_add.hpp>
#include <soma/ops/choose/top_k.hpp>
#include <soma/ops/choose/where.hpp>
#include <soma/ops/element/binary.hpp>
#include <soma/ops/element/dropout.hpp>
#include <soma/ops/element/gated.hpp>
#include <soma/ops/element/parametric.hpp>
#include <soma/ops/element/unary.hpp>
#include <soma/ops/image/average_pool.hpp>
#include <soma/ops/image/convolution.hpp>
#include <soma/ops/image/convolution_transpose.hpp>
#include <soma/ops/image/max_pool.hpp>
#include <soma/ops/image/quantized_convolution.hpp>
#include <soma/ops/image/resize.hpp>
#include <soma/ops/loss/cosine.hpp>
#include <soma/ops/loss/cross_entropy.hpp>
#include <soma/ops/loss/ctc.hpp>
#include <soma/ops/loss/element_loss.hpp>
#include <soma/ops/loss/head_loss.hpp>
#include <soma/ops/loss/nll.hpp>
#include <soma/ops/optimizer/accumulate.hpp>
#include <soma/ops/optimizer/adafactor_step.hpp>
#include <soma/ops/optimizer/finite.hpp>
#include <soma/ops/optimizer/optimizer_steps.hpp>
#include <soma/ops/optimizer/rms_step.hpp>
#include <soma/ops/product/linear.hpp>
#include <soma/ops/product/matmul.hpp>
#include <soma/ops/product/quantize.hpp>
#include <soma/ops/product/quantized_linear.hpp>
#include <soma/ops/rows/batch_norm.hpp>
#include <soma/ops/rows/embedding.hpp>
#include <soma/ops/rows/norm.hpp>
#include <soma/ops/rows/reduce.hpp>
#include <soma/ops/rows/softmax.hpp>
#include <soma/ops/sequence/gru.hpp>
#include <soma/ops/sequence/lstm.hpp>
#include <soma/ops/sequence/rnn.hpp>
#include <soma/ops/sequence/rotary.hpp>
#include <soma/ops/sequence/sequence_pool.hpp>
#include <soma/ops/views/cast.hpp>
#include <soma/ops/views/views.hpp>

#include <array>
#include <cstddef>
#include <utility>

namespace SOMA_NAMESPACE {

namespace detail {

template <std::size_t... unary, std::size_t... binary>
constexpr auto list_operators(std::index_sequence<unary...>, std::index_sequence<binary...>) {
  return std::array{&ops::unary<static_cast<Unary>(unary)>...,
                    &ops::unary_backward<static_cast<Unary>(unary)>...,
                    &ops::binary<static_cast<Binary>(binary)>...,
                    &ops::accumulate,
                    &ops::accumulate_rows,
                    &ops::attention,
                    &ops::attention_backward,
                    &ops::cast,
                    &ops::concatenate,
                    &ops::convolution,
                    &ops::convolution_backward,
                    &ops::cross_entropy,
                    &ops::cross_entropy_backward,
                    &ops::dropout,
                    &ops::element_loss,
                    &ops::element_loss_backward,
                    &ops::embedding,
                    &ops::embedding_backward,
                    &ops::linear,
                    &ops::matmul,
                    &ops::max_pool,
                    &ops::max_pool_backward,
                    &ops::norm,
                    &ops::norm_backward,
                    &ops::quantize,
                    &ops::quantized_convolution,
                    &ops::quantized_linear,
                    &ops::reduce,
                    &ops::reshape,
                    &ops::sequence_first,
                    &ops::slice,
                    &ops::softmax,
                    &ops::softmax_backward,
                    &ops::transpose,
                    &ops::gru,
                    &ops::gru_backward,
                    &ops::lstm,
                    &ops::lstm_backward,
                    &ops::rotary,
                    &ops::rotary_backward,
                    &ops::sgd_step,
                    &ops::adam_step,
                    &ops::lamb_step,
                    &ops::parametric<Clamp>,
                    &ops::parametric_backward<Clamp>,
                    &ops::parametric<Power>,
                    &ops::parametric_backward<Power>,
                    &ops::parametric<Leaky>,
                    &ops::parametric_backward<Leaky>,
                    &ops::gather,
                    &ops::pad,
                    &ops::top_k,
                    &ops::where,
                    &ops::average_pool,
                    &ops::batch_norm,
                    &ops::convolution_transpose,
                    &ops::nll_loss,
                    &ops::cosine_loss,
                    &ops::rms_step,
                    &ops::adafactor_step,
                    &ops::cumsum,
                    &ops::resize,
                    &ops::scatter_add,
                    &ops::sequence_pool,
                    &ops::rnn,
                    &ops::rnn_backward,
                    &ops::ctc_loss,
                    &ops::gated,
                    &ops::gated_backward,
                    &ops::head_loss,
                    &ops::head_loss_backward};
}
inline constexpr auto operator_list = list_operators(std::make_index_sequence<unary_count>(),
                                                     std::make_index_sequence<binary_count>());

inline std::span<const Operator* const> all_operators() { return operator_list; }

#if SOMA_WHOLE_TABLE

template <std::size_t... unary, std::size_t... binary>
constexpr BuiltInOperators make_built_in(std::index_sequence<unary...>,
                                         std::index_sequence<binary...>) {
  return {.unary = {&ops::unary<static_cast<Unary>(unary)>...},
          .binary = {&ops::binary<static_cast<Binary>(binary)>...},
          .attention = &ops::attention,
          .cast = &ops::cast,
          .concatenate = &ops::concatenate,
          .convolution = &ops::convolution,
          .cross_entropy = &ops::cross_entropy,
          .dropout = &ops::dropout,
          .element_loss = &ops::element_loss,
          .embedding = &ops::embedding,
          .linear = &ops::linear,
          .matmul = &ops::matmul,
          .max_pool = &ops::max_pool,
          .norm = &ops::norm,
          .quantize = &ops::quantize,
          .quantized_convolution = &ops::quantized_convolution,
          .quantized_linear = &ops::quantized_linear,
          .reduce = &ops::reduce,
          .reshape = &ops::reshape,
          .sequence_first = &ops::sequence_first,
          .slice = &ops::slice,
          .softmax = &ops::softmax,
          .transpose = &ops::transpose,
          .gru = &ops::gru,
          .lstm = &ops::lstm,
          .rotary = &ops::rotary,
          .sgd_step = &ops::sgd_step,
          .adam_step = &ops::adam_step,
          .lamb_step = &ops::lamb_step,
          .gather = &ops::gather,
          .pad = &ops::pad,
          .top_k = &ops::top_k,
          .where = &ops::where,
          .average_pool = &ops::average_pool,
          .convolution_transpose = &ops::convolution_transpose,
          .batch_norm = &ops::batch_norm,
          .nll_loss = &ops::nll_loss,
          .cosine_loss = &ops::cosine_loss,
          .rms_step = &ops::rms_step,
          .adafactor_step = &ops::adafactor_step,
          .cumsum = &ops::cumsum,
          .resize = &ops::resize,
          .scatter_add = &ops::scatter_add,
          .sequence_pool = &ops::sequence_pool,
          .rnn = &ops::rnn,
          .ctc_loss = &ops::ctc_loss,
          .gated = &ops::gated,
          .head_loss = &ops::head_loss,
          .clamp = &ops::parametric<Clamp>,
          .power = &ops::parametric<Power>,
          .leaky_relu = &ops::parametric<Leaky>,
          .all = &all_operators,
          .accumulate = &accumulate,
          .to_dense = &to_dense,
          .all_finite = &soma::all_finite};
}

#else

template <std::size_t... i>
constexpr std::array<const Operator*, sizeof...(i)> unary_records(std::index_sequence<i...>) {
  return {&ops::OfUnary<static_cast<Unary>(i)>::record...};
}
template <std::size_t... i>
constexpr std::array<const Operator*, sizeof...(i)> binary_records(std::index_sequence<i...>) {
  return {&ops::OfBinary<static_cast<Binary>(i)>::record...};
}

#endif

}  // namespace detail

#if SOMA_WHOLE_TABLE

// Not constexpr: with -D_GLIBCXX_DEBUG and -fsanitize=undefined g++ 12 makes no span of an inline
// array at compile time. Every other build still initialises it at compile time.
inline const BuiltInOperators built_in_operators = detail::make_built_in(
    std::make_index_sequence<unary_count>(), std::make_index_sequence<binary_count>());

#else

// Inlined, so that a function that is known at compile time is the only one that stays.
[[gnu::always_inline]] inline const Operator& BuiltInOperators::of(Unary function) const {
  static constexpr auto records = detail::unary_records(std::make_index_sequence<unary_count>());
  return *records[static_cast<std::size_t>(function)];
}
[[gnu::always_inline]] inline const Operator& BuiltInOperators::of(Binary function) const {
  static constexpr auto records = detail::binary_records(std::make_index_sequence<binary_count>());
  return *records[static_cast<std::size_t>(function)];
}

inline constexpr BuiltInOperators built_in_operators{};

#endif

}  // namespace SOMA_NAMESPACE
