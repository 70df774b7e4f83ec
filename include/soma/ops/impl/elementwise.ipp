#pragma once
// The functions of elementwise.hpp.

#include <soma/ops/elementwise.hpp>

#include <soma/ops/registry.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/samples.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE const Elementwise& elementwise_of(const void* state) {
  return *static_cast<const Elementwise*>(state);
}

SOMA_INLINE void run_chunks(const OperatorCall& call, ChunkFunction function) {
  constexpr std::size_t longest = 512;  // two inputs and the output stay in the first cache
  const std::size_t inputs = call.inputs.size();
  std::array<TensorRows, 2> held;
  std::array<MatrixOperand, 2> from;
  bool adjacent = true;
  for (std::size_t i = 0; i < inputs; ++i) {
    held[i] = rows_of(call.context, call.inputs[i]);
    from[i] = operand(held[i]);
    adjacent = adjacent && held[i].contiguous();
  }
  const MatrixTarget to = target(call.outputs[0]);
  const auto piece = [&](std::size_t row, std::size_t column, std::size_t count) {
    alignas(64) std::array<std::array<float, longest>, 3> buffers;
    Chunk chunk{call.attributes, {}, nullptr, count};
    for (std::size_t i = 0; i < inputs; ++i) {
      const MatrixOperand x = part(from[i], row, column);
      if (x.dtype == DType::fp32 && x.column_stride == 1) {
        chunk.inputs[i] = static_cast<const float*>(x.data);
        continue;
      }
      call.context.kernels().element.unary({.function = Unary::copy,
                                            .rows = 1,
                                            .columns = count,
                                            .x = x,
                                            .y = {.data = buffers[i].data()}});
      chunk.inputs[i] = buffers[i].data();
    }
    const MatrixTarget y = part(to, row, column);
    const bool direct = y.dtype == DType::fp32;
    chunk.output = direct ? static_cast<float*>(y.data) : buffers[2].data();
    function(chunk);
    if (!direct)
      call.context.kernels().element.unary({.function = Unary::copy,
                                            .rows = 1,
                                            .columns = count,
                                            .x = {.data = buffers[2].data()},
                                            .y = y});
  };
  for_elements(call.context, call.outputs[0].shape(), adjacent, 16,
               [&](std::size_t row, std::size_t column, std::size_t rows, std::size_t columns) {
                 for (std::size_t r = 0; r < rows; ++r)
                   for (std::size_t c = 0; c < columns; c += longest)
                     piece(row + r, column + c, (std::min)(longest, columns - c));
               });
}

SOMA_INLINE OperatorSamples elementwise_inputs(const Attributes& attributes) {
  OperatorSamples result;
  for (const Shape& shape : {Shape{}, Shape{0, 3}, Shape{1}, Shape{7, 31}, Shape{2, 3, 17}})
    result.samples.push_back({.name = to_string(shape),
                              .inputs = {{.shape = shape, .low = -2, .high = 2}},
                              .attributes = attributes});
  return result;
}

SOMA_INLINE NewOperator make_elementwise(std::string_view name, ChunkFunction forward,
                                         ChunkFunction gradient, OperatorSamples (*samples)()) {
  Owner owner(Elementwise{std::string(name), std::string(name) + " backward", forward, gradient});
  auto* state = static_cast<Elementwise*>(owner.get());
  state->backward = {
      .name = state->backward_name,
      .min_inputs = 2,
      .max_inputs = 2,
      .shape =
          [](const ShapeCall& call) {
            check_shape(elementwise_of(call.state).backward_name, "dy", call.inputs[1],
                        call.inputs[0].shape());
            call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
          },
      .host =
          [](const OperatorCall& call) { run_chunks(call, elementwise_of(call.state).gradient); },
      .state = state};
  Operator record{
      .name = state->name,
      .keeps_inputs = 1,
      .shape =
          [](const ShapeCall& call) {
            check_floating(elementwise_of(call.state).name, "x", call.inputs[0]);
            call.outputs[0] = {call.inputs[0].shape(), call.inputs[0].dtype()};
          },
      .host =
          [](const OperatorCall& call) { run_chunks(call, elementwise_of(call.state).forward); },
      .samples = samples,
      .wide_gradients = true,
      .state = state};
  if (gradient != nullptr)
    record.gradient = [](const GradientCall& call) {
      call.input_gradients[0].values =
          run(call.context, elementwise_of(call.state).backward, call.attributes,
              {call.inputs[0], call.output_gradients[0]})[0];
    };
  return {record, std::move(owner)};
}

}  // namespace SOMA_NAMESPACE::detail
