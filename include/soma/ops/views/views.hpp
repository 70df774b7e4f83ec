#pragma once
// Operators that choose or rearrange elements without computing: reshape, transpose, slice, select
// (views of their input), the first row of each sequence, concatenation. Cast is in cast.hpp.

#include <soma/ops/batch.hpp>
#include <soma/ops/element/binary.hpp>
#include <soma/ops/rows/embedding.hpp>
#include <soma/ops/run.hpp>
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

inline void reshape_batch(const BatchCall& call) {
  call.results[0] =
      reshaped_batch(call.batches[0], call.inputs[0].shape(), call.outputs[0].shape());
}

inline void transpose_host(const OperatorCall& call) {
  const auto& setting = call.attributes.as<TransposeSetting>();
  call.outputs[0] = call.inputs[0].transpose(setting.a, setting.b);
}
inline void transpose_gradient(const GradientCall& call) {
  const auto& setting = call.attributes.as<TransposeSetting>();
  call.input_gradients[0].values = call.output_gradients[0].transpose(setting.a, setting.b);
}

inline void transpose_batch(const BatchCall& call) {
  const auto& setting = call.attributes.as<TransposeSetting>();
  BatchPlace place = call.batches[0].place();
  if (place.dimension == setting.a)
    place.dimension = setting.b;
  else if (place.dimension == setting.b)
    place.dimension = setting.a;
  call.results[0] = call.batches[0].at(place);
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

// Some rows of a batch are none.
inline void slice_batch(const BatchCall& call) {
  const auto& setting = call.attributes.as<SliceSetting>();
  const Sequences& batch = call.batches[0];
  const bool cut = setting.dimension == batch.place().dimension &&
                   (setting.begin != 0 || setting.step != 1 ||
                    setting.end != call.inputs[0].size(setting.dimension));
  if (!cut) call.results[0] = batch;
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

inline void concatenate_batch(const BatchCall& call) {
  const Sequences& batch = call.batches[call.first()];
  if (batch.place().dimension != call.attributes.as<std::size_t>()) call.results[0] = batch;
}

}  // namespace detail

namespace ops {

inline constexpr Operator reshape{.name = "reshape",
                                  .makes_views = true,
                                  .batch = &detail::reshape_batch,
                                  .shape = &detail::view_shape,
                                  .host = &detail::reshape_host,
                                  .gradient = &detail::reshape_gradient,
                                  .wide_gradients = true,
                                  .built_in_samples = true};
inline constexpr Operator transpose{.name = "transpose",
                                    .makes_views = true,
                                    .batch = &detail::transpose_batch,
                                    .shape = &detail::view_shape,
                                    .host = &detail::transpose_host,
                                    .gradient = &detail::transpose_gradient,
                                    .wide_gradients = true,
                                    .built_in_samples = true};
inline constexpr Operator slice{.name = "slice",
                                .makes_views = true,
                                .batch = &detail::slice_batch,
                                .shape = &detail::view_shape,
                                .host = &detail::slice_host,
                                .gradient = &detail::slice_gradient,
                                .wide_gradients = true,
                                .built_in_samples = true};
inline constexpr Operator sequence_first{.name = "sequence_first",
                                         .batch = &detail::batch_of_summaries,
                                         .shape = &detail::sequence_first_shape,
                                         .host = &detail::sequence_first_host,
                                         .gradient = &detail::sequence_first_gradient,
                                         .wide_gradients = true,
                                         .built_in_samples = true};
inline constexpr Operator concatenate{.name = "concatenate",
                                      .max_inputs = 32,
                                      .batch = &detail::concatenate_batch,
                                      .shape = &detail::concatenate_shape,
                                      .host = &detail::concatenate_host,
                                      .gradient = &detail::concatenate_gradient,
                                      .wide_gradients = true,
                                      .built_in_samples = true};
}  // namespace ops

}  // namespace SOMA_NAMESPACE
