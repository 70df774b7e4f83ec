#pragma once
// Operators that choose or rearrange elements without computing: reshape, transpose, slice, select
// (views of their input), the first row of each sequence, concatenation. Cast is in cast.hpp.

#include <soma/ops/element/binary.hpp>
#include <soma/ops/rows/embedding.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/samples.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// The host function makes the views, and checks their arguments.
inline void view_shape(const ShapeCall&) {}

inline void reshape_host(const OperatorCall& call) {
  call.outputs[0] =
      contiguous(call.context, call.inputs[0]).reshape(call.attributes.as<ReshapeSetting>().shape);
}
inline void reshape_gradient(const GradientCall& call) {
  call.input_gradients[0].values =
      contiguous(call.context, call.output_gradients[0]).reshape(call.inputs[0].shape());
}

inline void transpose_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<TransposeSetting>();
  call.outputs[0] = call.inputs[0].transpose(setting.a, setting.b);
}
inline void transpose_gradient(const GradientCall& call) {
  const auto& setting = call.attributes.as<TransposeSetting>();
  call.input_gradients[0].values = call.output_gradients[0].transpose(setting.a, setting.b);
}

inline void slice_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<SliceSetting>();
  call.outputs[0] =
      call.inputs[0].slice(setting.dimension, setting.begin, setting.end, setting.step);
}
inline void slice_gradient(const GradientCall& call) {
  const auto& setting = call.attributes.as<SliceSetting>();
  const Tensor dx =
      Tensor::zeros(call.context, call.inputs[0].shape(), call.output_gradients[0].dtype());
  copy(call.output_gradients[0],
       dx.slice(setting.dimension, setting.begin, setting.end, setting.step));
  call.input_gradients[0].values = dx;
}

// The row numbers of sequences' first rows.
inline Tensor first_rows(Context& context, const Sequences& sequences) {
  const Tensor rows = Tensor::empty(context, Shape{sequences.count()}, DType::int64);
  auto* out = rows.mutable_data<std::int64_t>();
  for (std::size_t i = 0; i < sequences.count(); ++i)
    out[i] = static_cast<std::int64_t>(sequences.begin(i));
  return rows;
}

inline void sequence_first_shape(const ShapeCall& call) {
  check_rank("sequence_first", "x", call.inputs[0], 2);
  check_floating("sequence_first", "x", call.inputs[0]);
  check_sequences("sequence_first", call.inputs[0], call.sequences);
  check_first_rows("sequence_first", call.sequences);
  call.outputs[0] = {call.inputs[0].shape().with(0, call.sequences.count()),
                     call.inputs[0].dtype()};
}
inline void sequence_first_host(const OperatorCall& call) {
  const Tensor rows = first_rows(call.context, call.sequences);
  const TensorRows x = rows_of(call.context, call.inputs[0]);
  call.context.kernels().embedding.gather({.rows = rows.elements(),
                                           .columns = call.inputs[0].size(1),
                                           .table = operand(x),
                                           .ids = rows.raw(),
                                           .id_dtype = DType::int64,
                                           .y = target(call.outputs[0])});
}
inline void sequence_first_gradient(const GradientCall& call) {
  Gradient& gradient = call.input_gradients[0];
  gradient = {contiguous(call.context, call.output_gradients[0]),
              first_rows(call.context, call.sequences)};
}

inline void concatenate_shape(const ShapeCall& call) {
  const auto dimension = call.attributes.as<std::size_t>();
  const Tensor& first = call.inputs[0];
  if (dimension >= first.rank())
    fail(error_id::tensor_index, "concatenate", "dimension", std::to_string(dimension),
         "below the rank of " + first.describe());
  std::size_t size = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const Tensor& input = call.inputs[i];
    if (!input.defined() || input.rank() != first.rank() || input.dtype() != first.dtype() ||
        input.shape().with(dimension, 0) != first.shape().with(dimension, 0))
      fail(error_id::tensor_shape, "concatenate", input_name(i), input.describe(),
           first.describe() + " but for dimension " + std::to_string(dimension));
    size = checked_add(size, input.size(dimension), "concatenate");
  }
  call.outputs[0] = {first.shape().with(dimension, size), first.dtype()};
}
inline void concatenate_host(const OperatorCall& call) {
  const auto dimension = call.attributes.as<std::size_t>();
  std::size_t begin = 0;
  for (const Tensor& input : call.inputs) {
    const std::size_t end = begin + input.size(dimension);
    copy(input, call.outputs[0].slice(dimension, begin, end));
    begin = end;
  }
}
inline void concatenate_gradient(const GradientCall& call) {
  const auto dimension = call.attributes.as<std::size_t>();
  std::size_t begin = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const std::size_t end = begin + call.inputs[i].size(dimension);
    if (call.wanted[i])
      call.input_gradients[i].values = call.output_gradients[0].slice(dimension, begin, end);
    begin = end;
  }
}

inline OperatorSamples view_samples(
    std::vector<ReferenceTensor> (*reference)(const Sample&, const std::vector<ReferenceTensor>&),
    std::vector<Sample> samples) {
  return {std::move(samples), reference};
}

// The reference of a view: each output element is the input element with that number.
inline std::vector<ReferenceTensor> numbered_reference(const Sample&,
                                                       const std::vector<ReferenceTensor>& inputs,
                                                       const Shape& shape, const Strides& strides,
                                                       std::size_t first) {
  ReferenceTensor y{shape, {}};
  for (std::size_t i = 0; i < shape.elements(); ++i) {
    std::size_t rest = i, from = first;
    for (std::size_t d = shape.rank(); d-- > 0; rest /= shape[d])
      from += rest % shape[d] * strides[d];
    y.values.push_back(inputs[0].values[from]);
  }
  return {y};
}

inline OperatorSamples reshape_samples() {
  return view_samples(
      [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
        return std::vector<ReferenceTensor>{
            {sample.attributes.as<ReshapeSetting>().shape, inputs[0].values}};
      },
      {{.name = "2 x 6 to 3 x 4",
        .inputs = {{.shape = Shape{2, 6}}},
        .attributes = ReshapeSetting{Shape{3, 4}},
        .lengths = {}},
       {.name = "nothing",
        .inputs = {{.shape = Shape{0, 6}}},
        .attributes = ReshapeSetting{Shape{3, 0}},
        .lengths = {}}});
}
inline OperatorSamples transpose_samples() {
  return view_samples(
      [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
        const auto& setting = sample.attributes.as<TransposeSetting>();
        Strides strides = inputs[0].shape.strides();
        std::swap(strides[setting.a], strides[setting.b]);
        const Shape shape = inputs[0]
                                .shape.with(setting.a, inputs[0].shape[setting.b])
                                .with(setting.b, inputs[0].shape[setting.a]);
        return numbered_reference(sample, inputs, shape, strides, 0);
      },
      {{.name = "0 and 2",
        .inputs = {{.shape = Shape{2, 3, 5}}},
        .attributes = TransposeSetting{0, 2},
        .lengths = {}}});
}
inline OperatorSamples slice_samples() {
  return view_samples(
      [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
        const auto& setting = sample.attributes.as<SliceSetting>();
        Strides strides = inputs[0].shape.strides();
        const std::size_t first = setting.begin * strides[setting.dimension];
        const std::size_t end =
            setting.end == to_end ? inputs[0].shape[setting.dimension] : setting.end;
        strides[setting.dimension] *= setting.step;
        return numbered_reference(
            sample, inputs,
            inputs[0].shape.with(setting.dimension,
                                 (end - setting.begin + setting.step - 1) / setting.step),
            strides, first);
      },
      {{.name = "rows",
        .inputs = {{.shape = Shape{7, 3}}},
        .attributes = SliceSetting{0, 2, to_end, 2},
        .lengths = {}},
       {.name = "columns",
        .inputs = {{.shape = Shape{2, 5, 3}}},
        .attributes = SliceSetting{1, 1, 4, 1},
        .lengths = {}}});
}
inline OperatorSamples sequence_first_samples() {
  return view_samples(
      [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
        const std::size_t columns = inputs[0].shape[1];
        ReferenceTensor y{Shape{sample.lengths.size(), columns}, {}};
        std::size_t row = 0;
        for (const std::size_t length : sample.lengths) {
          for (std::size_t c = 0; c < columns; ++c)
            y.values.push_back(inputs[0].values[row * columns + c]);
          row += length;
        }
        return std::vector<ReferenceTensor>{y};
      },
      {{.name = "three sequences",
        .inputs = {{.shape = Shape{9, 5}}},
        .attributes = {},
        .lengths = {1, 5, 3}}});
}
inline OperatorSamples concatenate_samples() {
  return view_samples(
      [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
        const auto dimension = sample.attributes.as<std::size_t>();
        std::size_t outer = 1, size = 0;
        for (std::size_t d = 0; d < dimension; ++d) outer *= inputs[0].shape[d];
        ReferenceTensor y;
        for (std::size_t i = 0; i < outer; ++i)
          for (const ReferenceTensor& input : inputs) {
            const std::size_t run_length = input.values.size() / outer;
            for (std::size_t j = 0; j < run_length; ++j)
              y.values.push_back(input.values[i * run_length + j]);
          }
        for (const ReferenceTensor& input : inputs) size += input.shape[dimension];
        y.shape = inputs[0].shape.with(dimension, size);
        return std::vector<ReferenceTensor>{y};
      },
      {{.name = "rows",
        .inputs = {{.shape = Shape{2, 3}}, {.shape = Shape{0, 3}}, {.shape = Shape{4, 3}}},
        .attributes = std::size_t{0},
        .lengths = {}},
       {.name = "columns",
        .inputs = {{.shape = Shape{2, 3}}, {.shape = Shape{2, 1}}},
        .attributes = std::size_t{1},
        .lengths = {}}});
}
}  // namespace detail

namespace ops {

inline constexpr Operator reshape{.name = "reshape",
                                  .makes_views = true,
                                  .shape = &detail::view_shape,
                                  .host = &detail::reshape_host,
                                  .gradient = &detail::reshape_gradient,
                                  .samples = SOMA_BUILT_IN_SAMPLES(detail::reshape_samples)};
inline constexpr Operator transpose{.name = "transpose",
                                    .makes_views = true,
                                    .shape = &detail::view_shape,
                                    .host = &detail::transpose_host,
                                    .gradient = &detail::transpose_gradient,
                                    .samples = SOMA_BUILT_IN_SAMPLES(detail::transpose_samples)};
inline constexpr Operator slice{.name = "slice",
                                .makes_views = true,
                                .shape = &detail::view_shape,
                                .host = &detail::slice_host,
                                .gradient = &detail::slice_gradient,
                                .samples = SOMA_BUILT_IN_SAMPLES(detail::slice_samples)};
inline constexpr Operator sequence_first{
    .name = "sequence_first",
    .shape = &detail::sequence_first_shape,
    .host = &detail::sequence_first_host,
    .gradient = &detail::sequence_first_gradient,
    .samples = SOMA_BUILT_IN_SAMPLES(detail::sequence_first_samples)};
inline constexpr Operator concatenate{
    .name = "concatenate",
    .max_inputs = 32,
    .shape = &detail::concatenate_shape,
    .host = &detail::concatenate_host,
    .gradient = &detail::concatenate_gradient,
    .samples = SOMA_BUILT_IN_SAMPLES(detail::concatenate_samples)};
}  // namespace ops

}  // namespace SOMA_NAMESPACE
