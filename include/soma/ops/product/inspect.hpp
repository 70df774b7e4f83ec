#pragma once
// numeric::inspect() of tensors: the effect of a quantizer on a tensor. One element at a time, on
// all threads: for experiments, not for the hot path.

#include <soma/numeric/inspect.hpp>
#include <soma/ops/product/quantize.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/support.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace SOMA_NAMESPACE {

namespace detail {

// The effect of ops::quantize on x.
inline numeric::Inspection inspect_conversion(Context& context, const Tensor& x,
                                              const Outputs& made, const QuantizeSetting& setting) {
  const auto plain = [&](const Tensor& tensor) {
    return plain_fp32(context, as_rows(context, tensor));
  };
  const Tensor before = plain(x), after = plain(made[0]), scales = made[1];
  const Quantizer& quantizer = setting.quantizer;
  const bool codes = quantized_code_dtype(quantizer) >= 0;
  const bool scaled = quantizer.scaling.policy != ScalePolicy::none;
  const float tensor_scale = scaled && quantizer.scaling.format == ScaleFormat::e4m3
                                 ? tensor_scale_of(context, setting, x)
                                 : 1.0f;
  const ScalingBlock block =
      scaling_block(scaled ? quantizer.scaling.granularity : Granularity::tensor);
  const std::size_t rows = before.shape().rows(), columns = before.shape().columns();
  const ScaleGrid grid =
      scale_grid(scaled ? quantizer.scaling.granularity : Granularity::tensor, rows, columns);
  // Groups along tokens start anew at shards, so rows alone do not determine the index of their
  // scales.
  const bool located = scales.elements() == grid.size() && !setting.along_rows;
  const double largest = decode(quantizer.format, quantizer.format.max_finite_code());
  const double normal = std::ldexp(1.0, quantizer.format.min_normal_exponent());
  const auto inspect_rows = [&](numeric::Inspection& result, std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      for (std::size_t j = 0; j < columns; ++j) {
        const std::size_t row = block.rows == 0 ? 0 : i / block.rows;
        const std::size_t column = block.columns == 0 ? 0 : j / block.columns;
        const float scale = located ? scales.data<float>()[row * grid.columns + column] : 1.0f;
        const float stored = after.data<float>()[i * columns + j];
        numeric::inspect(result, before.data<float>()[i * columns + j],
                         codes ? stored * scale : stored * tensor_scale,
                         located ? largest * double{scale} * double{tensor_scale}
                                 : std::numeric_limits<double>::infinity(),
                         located ? normal * double{scale} * double{tensor_scale} : 0.0);
      }
  };
  // A fixed number of parts, added in order: the same sums from any number of threads.
  constexpr std::size_t parts = 32;
  std::vector<numeric::Inspection> found(parts);
  for_ranges(context, parts, rows * columns / parts, [&](std::size_t begin, std::size_t end) {
    for (std::size_t part = begin; part < end; ++part)
      inspect_rows(found[part], rows * part / parts, rows * (part + 1) / parts);
  });
  numeric::Inspection result;
  for (const numeric::Inspection& part : found) result += part;
  return result;
}

}  // namespace detail

namespace numeric {

// The effect of the quantizer on a tensor of a floating type, without its rotation, which belongs
// to a product. A delayed scale is taken from the tensor's own amax. Error tensor.dtype, and those
// of ops::quantize.
inline Inspection inspect(Context& context, const Tensor& x, const Quantizer& quantizer) {
  QuantizeSetting setting{.quantizer = quantizer};
  setting.quantizer.rotation = {};
  if (setting.quantizer.scaling.format == ScaleFormat::e4m3) setting.scale = 0;
  if (setting.quantizer.scaling.policy == ScalePolicy::delayed)
    setting.quantizer.scaling.policy = ScalePolicy::current;
  return soma::detail::inspect_conversion(context, x, run(context, ops::quantize, setting, {x}),
                                          setting);
}

}  // namespace numeric
}  // namespace SOMA_NAMESPACE
