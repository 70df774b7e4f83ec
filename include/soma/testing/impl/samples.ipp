#pragma once
// The functions of samples.hpp, and the table of the built-in operators' samples.

#include <soma/testing/samples.hpp>

// First, as in ops/all.hpp: it declares the records.
#include <soma/ops/records.hpp>

#include <soma/testing/samples/attention.hpp>
#include <soma/testing/samples/choose.hpp>
#include <soma/testing/samples/element.hpp>
#include <soma/testing/samples/head_loss.hpp>
#include <soma/testing/samples/image.hpp>
#include <soma/testing/samples/loss.hpp>
#include <soma/testing/samples/product.hpp>
#include <soma/testing/samples/rows.hpp>
#include <soma/testing/samples/sequence.hpp>
#include <soma/testing/samples/sparse.hpp>
#include <soma/testing/samples/views.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE {

namespace detail {

struct NamedSamples {
  std::string_view name;
  OperatorSamples (*samples)();
};

template <std::size_t... i>
constexpr std::array<NamedSamples, sizeof...(i)> samples_of_unary(std::index_sequence<i...>) {
  return {{{describe(static_cast<Unary>(i)).name, &unary_samples<static_cast<Unary>(i)>}...}};
}
template <std::size_t... i>
constexpr std::array<NamedSamples, sizeof...(i)> samples_of_binary(std::index_sequence<i...>) {
  return {{{binary_names[i], &binary_samples<static_cast<Binary>(i)>}...}};
}

inline constexpr auto unary_sample_table =
    samples_of_unary(std::make_index_sequence<unary_count>());
inline constexpr auto binary_sample_table =
    samples_of_binary(std::make_index_sequence<binary_count>());
inline constexpr NamedSamples sample_table[] = {
    {"attention", &attention_samples},
    {"average_pool", &average_pool_samples},
    {"batch_norm", &batch_norm_samples},
    {"cast", &cast_samples},
    {"concatenate", &concatenate_samples},
    {"convolution", &convolution_samples},
    {"convolution_transpose", &convolution_transpose_samples},
    {"cosine_loss", &cosine_samples},
    {"cross_entropy", &cross_entropy_samples},
    {"ctc_loss", &ctc_samples},
    {"cumsum", &cumsum_samples},
    {"dropout", &dropout_samples},
    {"element_loss", &element_loss_samples},
    {"embedding", &embedding_samples},
    {"gated", &gated_samples},
    {"gather", &gather_samples},
    {"gru", &gru_samples},
    {"head_loss", &head_loss_samples},
    {"linear", &linear_samples},
    {"lstm", &lstm_samples},
    {"matmul", &matmul_samples},
    {"max_pool", &max_pool_samples},
    {"nll_loss", &nll_samples},
    {"norm", &norm_samples},
    {"pad", &pad_samples},
    {"quantize", &quantize_samples},
    {"quantized_convolution", &quantized_convolution_samples},
    {"quantized_linear", &quantized_linear_samples},
    {"reduce", &reduce_samples},
    {"reshape", &reshape_samples},
    {"resize", &resize_samples},
    {"rnn", &rnn_samples},
    {"rotary", &rotary_samples},
    {"scatter_add", &scatter_add_samples},
    {"sequence_first", &sequence_first_samples},
    {"sequence_pool", &sequence_pool_samples},
    {"slice", &slice_samples},
    {"softmax", &softmax_samples},
    {"top_k", &top_k_samples},
    {"transpose", &transpose_samples},
    {"where", &where_samples},
    {bag_name, &embedding_bag_samples},
    {bag_logits_name, &bag_logits_samples},
    {bag_loss_name, &bag_loss_samples},
    {list_loss_name, &list_loss_samples},
    {Clamp::name, &parametric_samples<Clamp>},
    {Power::name, &parametric_samples<Power>},
    {Leaky::name, &parametric_samples<Leaky>},
};

}  // namespace detail

namespace testing {

SOMA_INLINE OperatorSamples samples_of(const Operator& op) {
  if (op.samples != nullptr) return op.samples();
  if (!op.built_in_samples) return {};
  using Table = std::span<const soma::detail::NamedSamples>;
  for (const Table table :
       {Table(soma::detail::unary_sample_table), Table(soma::detail::binary_sample_table),
        Table(soma::detail::sample_table)})
    for (const auto& [name, samples] : table)
      if (name == op.name) return samples();
  return {};
}

}  // namespace testing
}  // namespace SOMA_NAMESPACE
