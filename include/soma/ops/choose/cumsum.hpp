#pragma once
// cumsum: sums of the elements up to each, along one dimension. They are computed in double and
// rounded once, so that their error does not grow along a line.

#include <soma/ops/choose/elements.hpp>
#include <soma/ops/choose/settings.hpp>
#include <soma/ops/plain_call.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

namespace detail {

inline void cumsum_shape(const ShapeCall& call) {
  const Tensor& x = call.inputs[0];
  check_floating("cumsum", "x", x);
  check_dimension("cumsum", x, call.attributes.as<DimensionSetting>().dimension);
  call.outputs[0] = {x.shape(), x.dtype()};
}

// y[i] = the sum of x[0] .. x[i] of each line; backwards: of x[i] .. x[size - 1].
inline void cumulative_sums(Context& context, const Along& along, bool backwards, const float* x,
                            float* y) {
  for_ranges(
      context, along.outer * along.inner, along.size, [&](std::size_t begin, std::size_t end) {
        for (std::size_t line = begin; line < end; ++line) {
          const std::size_t first =
              line / along.inner * along.size * along.inner + line % along.inner;
          double sum = 0;
          for (std::size_t i = 0; i < along.size; ++i) {
            const std::size_t at = first + (backwards ? along.size - 1 - i : i) * along.inner;
            sum += static_cast<double>(x[at]);
            y[at] = static_cast<float>(sum);
          }
        }
      });
}

inline void cumsum_plain(const OperatorCall& call) {
  const std::size_t dimension = call.attributes.as<DimensionSetting>().dimension;
  cumulative_sums(call.context, Along(call.inputs[0].shape(), dimension), false,
                  call.inputs[0].data<float>(), call.outputs[0].mutable_data<float>());
}
inline void cumsum_host(const OperatorCall& call) { with_plain_tensors(call, 0, cumsum_plain); }

inline void cumsum_gradient(const GradientCall& call) {
  with_plain_tensors(call, [](const GradientCall& plain_call) {
    const std::size_t dimension = plain_call.attributes.as<DimensionSetting>().dimension;
    const Tensor dy = contiguous(plain_call.context, plain_call.output_gradients[0]);
    const Tensor dx = Tensor::empty(plain_call.context, dy.shape(), DType::fp32);
    cumulative_sums(plain_call.context, Along(dy.shape(), dimension), true, dy.data<float>(),
                    dx.mutable_data<float>());
    plain_call.input_gradients[0].values = dx;
  });
}

// Sums over the rows of a batch are rows of no batch.
inline void cumsum_batch(const BatchCall& call) {
  if (call.batches[0].place().dimension != call.attributes.as<DimensionSetting>().dimension)
    call.results[0] = call.batches[0];
}

}  // namespace detail

namespace ops {

inline constexpr Operator cumsum{.name = "cumsum",
                                 .batch = &detail::cumsum_batch,
                                 .shape = &detail::cumsum_shape,
                                 .host = &detail::cumsum_host,
                                 .gradient = &detail::cumsum_gradient,
                                 .wide_gradients = true,
                                 .built_in_samples = true};

}  // namespace ops
}  // namespace SOMA_NAMESPACE
