#pragma once
// The programs of the built-in operators. Included by whoever makes a device, and by nobody else.

#include <soma/ops/all.hpp>
#include <soma/programs/attention/attention.hpp>
#include <soma/programs/attention/attention_backward.hpp>
#include <soma/programs/choose/pad.hpp>
#include <soma/programs/choose/where.hpp>
#include <soma/programs/element/binary.hpp>
#include <soma/programs/element/dropout.hpp>
#include <soma/programs/element/parametric.hpp>
#include <soma/programs/element/unary.hpp>
#include <soma/programs/element/unary_backward.hpp>
#include <soma/programs/image/convolution.hpp>
#include <soma/programs/image/convolution_backward.hpp>
#include <soma/programs/image/max_pool.hpp>
#include <soma/programs/image/widened.hpp>
#include <soma/programs/loss/cross_entropy.hpp>
#include <soma/programs/loss/element_loss.hpp>
#include <soma/programs/optimizer/accumulate.hpp>
#include <soma/programs/optimizer/optimizer_steps.hpp>
#include <soma/programs/product/linear.hpp>
#include <soma/programs/product/matmul.hpp>
#include <soma/programs/rows/embedding.hpp>
#include <soma/programs/rows/norm.hpp>
#include <soma/programs/rows/reduce.hpp>
#include <soma/programs/rows/softmax.hpp>
#include <soma/programs/sequence/gru.hpp>
#include <soma/programs/sequence/lstm.hpp>
#include <soma/programs/sequence/rotary.hpp>
#include <soma/programs/views/cast.hpp>
#include <soma/programs/views/views.hpp>

#include <array>
#include <cstddef>
#include <utility>

namespace SOMA_NAMESPACE {

namespace programs::detail {

template <std::size_t... unary, std::size_t... binary>
constexpr auto list_programs(std::index_sequence<unary...>, std::index_sequence<binary...>) {
  return std::array{
      OperatorProgram{&ops::unary<static_cast<Unary>(unary)>,
                      {&programs::unary<static_cast<Unary>(unary)>}}...,
      OperatorProgram{&ops::concatenate, {&programs::concatenate}},
      OperatorProgram{&ops::sequence_first, {&programs::sequence_first}},
      OperatorProgram{&ops::convolution, {&programs::image_program<&programs::convolution>}},
      OperatorProgram{&ops::convolution_backward,
                      {&programs::image_program<&programs::convolution_backward>}},
      OperatorProgram{&ops::max_pool, {&programs::image_program<&programs::max_pool>}},
      OperatorProgram{&ops::max_pool_backward,
                      {&programs::image_program<&programs::max_pool_backward>}},
      OperatorProgram{&ops::sgd_step, {.run = &programs::sgd_step, .host_inputs = 4}},
      OperatorProgram{&ops::adam_step, {.run = &programs::adam_step, .host_inputs = 4}},
      OperatorProgram{&ops::lamb_step, {.run = &programs::lamb_step, .host_inputs = 4}},
      OperatorProgram{&ops::unary_backward<static_cast<Unary>(unary)>,
                      {&programs::unary_backward<static_cast<Unary>(unary)>}}...,
      OperatorProgram{&ops::binary<static_cast<Binary>(binary)>,
                      {&programs::binary<static_cast<Binary>(binary)>}}...,
      OperatorProgram{&ops::parametric<soma::detail::Clamp>, {&programs::parametric<ClampSetting>}},
      OperatorProgram{&ops::parametric_backward<soma::detail::Clamp>,
                      {&programs::parametric_backward<ClampSetting>}},
      OperatorProgram{&ops::parametric<soma::detail::Leaky>, {&programs::parametric<LeakySetting>}},
      OperatorProgram{&ops::parametric_backward<soma::detail::Leaky>,
                      {&programs::parametric_backward<LeakySetting>}},
      OperatorProgram{&ops::cast, {&programs::cast}},
      OperatorProgram{&ops::cross_entropy, {.run = &programs::cross_entropy, .host_inputs = 2}},
      OperatorProgram{&ops::cross_entropy_backward,
                      {.run = &programs::cross_entropy_backward, .host_inputs = 2}},
      OperatorProgram{&ops::dropout, {&programs::dropout}},
      OperatorProgram{&ops::element_loss, {&programs::element_loss}},
      OperatorProgram{&ops::element_loss_backward, {&programs::element_loss_backward}},
      OperatorProgram{&ops::norm, {&programs::norm}},
      OperatorProgram{&ops::norm_backward, {&programs::norm_backward}},
      OperatorProgram{&ops::reduce, {&programs::reduce}},
      OperatorProgram{&ops::softmax, {&programs::softmax}},
      OperatorProgram{&ops::softmax_backward, {&programs::softmax_backward}},
      OperatorProgram{&ops::accumulate, {&programs::accumulate}},
      OperatorProgram{&ops::accumulate_rows,
                      {.run = &programs::accumulate_rows, .host_inputs = 12}},
      OperatorProgram{&ops::attention, {&programs::attention, 1, 1}},
      OperatorProgram{&ops::attention_backward, {&programs::attention_backward, 1, 2}},
      OperatorProgram{&ops::embedding, {.run = &programs::embedding, .host_inputs = 2}},
      OperatorProgram{&ops::embedding_backward,
                      {.run = &programs::embedding_backward, .host_inputs = 6}},
      OperatorProgram{&ops::linear, {&programs::linear}},
      OperatorProgram{&ops::matmul, {&programs::matmul}},
      OperatorProgram{&ops::pad, {&programs::pad}},
      OperatorProgram{&ops::where, {&programs::where}},
      OperatorProgram{&ops::gru, {&programs::gru}},
      OperatorProgram{&ops::gru_backward, {&programs::gru_backward}},
      OperatorProgram{&ops::lstm, {&programs::lstm}},
      OperatorProgram{&ops::lstm_backward, {&programs::lstm_backward}},
      OperatorProgram{&ops::rotary, {&programs::rotary}},
      OperatorProgram{&ops::rotary_backward, {&programs::rotary_backward}},
  };
}
inline constexpr auto program_list = list_programs(std::make_index_sequence<unary_count>(),
                                                   std::make_index_sequence<binary_count>());

}  // namespace programs::detail

}  // namespace SOMA_NAMESPACE
