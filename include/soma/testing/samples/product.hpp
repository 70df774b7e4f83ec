#pragma once
// Samples of matrix products, linear layers and quantization, and their formulas in double.

#include <soma/kernels/reference/element.hpp>
#include <soma/ops/product/linear.hpp>
#include <soma/ops/product/matmul.hpp>
#include <soma/ops/product/quantize.hpp>
#include <soma/ops/product/quantized_linear.hpp>
#include <soma/ops/samples.hpp>
#include <soma/testing/samples/element.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

inline std::vector<ReferenceTensor> matmul_reference(const Sample& sample,
                                                     const std::vector<ReferenceTensor>& inputs) {
  const auto& setting = sample.attributes.as<MatmulSetting>();
  const ReferenceTensor &a = inputs[0], &b = inputs[1];
  const std::size_t rank = b.shape.rank();
  std::size_t batch = 1;
  for (std::size_t i = 0; i + 2 < rank; ++i) batch *= b.shape[i];
  const std::size_t rows = rank > 2 ? a.shape[rank - 2] : a.shape.rows();
  const std::size_t columns = a.shape.columns();
  const std::size_t m = setting.transpose_a ? columns : rows;
  const std::size_t k = setting.transpose_a ? rows : columns;
  const std::size_t n = b.shape[rank - (setting.transpose_b ? 2 : 1)];
  ReferenceTensor y;
  for (std::size_t s = 0; s < batch; ++s)
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::size_t p = 0; p < k; ++p) {
          const std::size_t x = setting.transpose_a ? p * m + i : i * k + p;
          const std::size_t z = setting.transpose_b ? j * k + p : p * n + j;
          sum += (a.values[s * m * k + x] - setting.a.zero_point) *
                 static_cast<double>(setting.a.scale) *
                 ((b.values[s * k * n + z] - setting.b.zero_point) *
                  static_cast<double>(setting.b.scale));
        }
        y.values.push_back(sum);
      }
  if (rank > 2)
    y.shape = a.shape.with(rank - 2, m).with(rank - 1, n);
  else
    y.shape = setting.transpose_a ? Shape{m, n} : a.shape.with(a.shape.rank() - 1, n);
  return {y};
}

inline OperatorSamples matmul_samples() {
  OperatorSamples result;
  result.reference = &matmul_reference;
  const auto add = [&](const Shape& a, const Shape& b, const MatmulSetting& setting,
                       std::vector<std::size_t> lengths = {}, DType dtype = DType::fp32) {
    const bool integer = !is_floating(dtype);
    const double low = dtype == DType::uint8 ? 0 : integer ? -20 : -1, high = integer ? 20 : 1;
    const double inner = static_cast<double>(a.elements() + b.elements());
    result.samples.push_back(
        {.name = to_string(a) + " " + to_string(b) + " " + std::string(to_string(dtype)),
         .inputs = {{.shape = a, .dtype = dtype, .low = low, .high = high},
                    {.shape = b, .dtype = dtype, .low = low, .high = high}},
         .attributes = setting,
         .lengths = std::move(lengths),
         .error = inner * (integer ? 400 : 1) * 0x1p-24,
         .gradient_error = inner * 0x1p-24});
  };
  add({5, 7}, {7, 3}, {});
  add({37, 19}, {19, 65}, {});
  add({2, 3, 5}, {5, 4}, {});
  add({2, 3, 5}, {2, 5, 4}, {});
  add({4, 0}, {0, 3}, {});
  add({0, 4}, {4, 3}, {});
  add({13, 5}, {7, 5}, {.transpose_b = true});
  add({13, 5}, {13, 7}, {.transpose_a = true, .over_rows = true}, {3, 0, 9, 1});
  add({13, 5}, {13, 7}, {.transpose_a = true});
  add({2, 5, 3}, {2, 4, 5}, {.transpose_a = true, .transpose_b = true});
  for (const bool turned : {false, true})
    add({6, 6}, {6, 6}, {.transpose_a = turned, .transpose_b = turned, .a = {0.5f}, .b = {3}});
  add({6, 10}, {10, 5}, {.a = {0.5f, 3}, .b = {0.25f, -2}}, {}, DType::int8);
  add({6, 10}, {10, 5}, {.a = {0.5f, 3}, .b = {0.25f, 7}}, {}, DType::uint8);
  add({3, 1030}, {1030, 2}, {.b = {1, 5}}, {}, DType::int8);
  add({6, 10}, {10, 5}, {.b = {1, 5}, .output = DType::int32}, {}, DType::int8);
  return result;
}

inline std::vector<ReferenceTensor> linear_reference(const Sample& sample,
                                                     const std::vector<ReferenceTensor>& inputs) {
  const auto& setting = sample.attributes.as<LinearSetting>();
  const ReferenceTensor &x = inputs[0], &weight = inputs[1];
  const std::size_t n = weight.shape[0], k = weight.shape[1], rows = x.shape.rows();
  ReferenceTensor y{x.shape.with(x.shape.rank() - 1, n), {}};
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double sum = inputs.size() > 2 && inputs[2].defined ? inputs[2].values[j] : 0;
      for (std::size_t p = 0; p < k; ++p) sum += x.values[i * k + p] * weight.values[j * k + p];
      sum = reference::unary(unary_of(setting.activation), sum);
      sum = dropped(setting.dropout, sample, i, j, sum);
      if (inputs.size() > 3 && inputs[3].defined) sum += inputs[3].values[i * n + j];
      y.values.push_back(sum);
    }
  return {y};
}

inline OperatorSamples linear_samples() {
  OperatorSamples result;
  result.reference = &linear_reference;
  const auto add = [&](const Shape& x, std::size_t n, bool bias, bool residual,
                       const LinearSetting& setting, std::vector<std::size_t> lengths = {}) {
    const std::size_t k = x.columns();
    const double error = 4 * static_cast<double>(k + x.rows() + n + 8) * 0x1p-24;
    result.samples.push_back({.name = to_string(x) + " to " + std::to_string(n),
                              .inputs = {{.shape = x},
                                         {.shape = Shape{n, k}},
                                         {.shape = Shape{n}, .left_out = !bias},
                                         {.shape = x.with(x.rank() - 1, n), .left_out = !residual}},
                              .attributes = setting,
                              .lengths = std::move(lengths),
                              .error = error,
                              .gradient_error = error});
  };
  const DropoutSetting drop{.probability = 0.3f, .draw = {.seed = 5, .stream = 6, .step = 7}};
  add({5, 7}, 3, false, false, {});
  add({5, 7}, 3, true, true, {});
  add({19, 23}, 17, true, false, {.activation = Activation::gelu}, {4, 0, 15});
  add({19, 23}, 17, true, true, {.activation = Activation::relu, .dropout = drop}, {4, 0, 15});
  add({3, 4, 5}, 6, true, false, {.activation = Activation::tanh});
  add({6, 5}, 4, true, true, {.activation = Activation::gelu_tanh, .dropout = drop});
  add({0, 5}, 4, true, false, {});
  add({9}, 4, true, false, {});
  return result;
}

// The group of scaling blocks of each row, and the rest of the definition: element by element, by
// the scalar codec. Not for a batch whose shards follow its sequences.
inline std::vector<std::size_t> reference_row_groups(const QuantizeSetting& setting,
                                                     std::size_t rows) {
  const Scaling& scaling = setting.quantizer.scaling;
  const ScalingBlock along = scaling_block(scaling.granularity);
  const bool turned = setting.along_rows && !is_square(scaling.granularity);
  const std::size_t step = turned ? along.columns : along.rows;
  std::vector<std::size_t> groups(rows, 0);
  if (has_one_scale(scaling)) return groups;
  const std::size_t shards = setting.along_rows && !setting.parameter ? default_shards : 1;
  std::size_t group = 0;
  for (std::size_t s = 0; s < shards; ++s) {
    const std::size_t begin = rows / shards * s + rows % shards * s / shards;
    const std::size_t end = rows / shards * (s + 1) + rows % shards * (s + 1) / shards;
    for (std::size_t row = begin; row < end; ++row) {
      if (row != begin && step != 0 && (row - begin) % step == 0) ++group;
      groups[row] = group;
    }
    if (begin != end) ++group;
  }
  return groups;
}

inline std::uint32_t reference_quantize_word(const Sample& sample, std::size_t row,
                                             std::size_t column) {
  const auto& setting = sample.attributes.as<QuantizeSetting>();
  Draw draw = setting.draw;
  draw.index = setting.parameter ? parameter_index(row, column) : token_index(row, 0, column);
  std::size_t begin = 0;
  for (std::size_t i = 0; i < sample.lengths.size() && !setting.parameter;
       begin += sample.lengths[i++])
    if (row >= begin && row < begin + sample.lengths[i])
      draw.index = token_index(i, row - begin, column);
  const Quantizer& quantizer = setting.quantizer;
  return rounding_word(draw, random_bits(quantizer.rounding, quantizer.format), 0,
                       quantizer.rounding.draws);
}

inline std::vector<ReferenceTensor> quantize_reference(const Sample& sample,
                                                       const std::vector<ReferenceTensor>& inputs) {
  const auto& setting = sample.attributes.as<QuantizeSetting>();
  const Quantizer& quantizer = setting.quantizer;
  const Scaling& scaling = quantizer.scaling;
  const bool one = has_one_scale(scaling), codes = quantized_code_dtype(quantizer) >= 0;
  const std::size_t rows = inputs[0].shape.rows(), columns = inputs[0].shape.columns();
  const std::vector<std::size_t> row_groups = reference_row_groups(setting, rows);
  const bool turned = setting.along_rows && !is_square(scaling.granularity);
  const ScalingBlock along = scaling_block(scaling.granularity);
  const std::size_t width = one ? 0 : turned ? along.rows : along.columns;
  const std::size_t grid_columns = width == 0 ? 1 : (columns + width - 1) / width;
  const std::size_t grid_rows = one ? 1 : rows == 0 ? 0 : row_groups.back() + 1;
  const auto block_of = [&](std::size_t i) {
    return row_groups[i / columns] * grid_columns + (width == 0 ? 0 : i % columns / width);
  };

  std::vector<float> amax(grid_rows * grid_columns), scales(amax.size(), 1.0f);
  float largest = 0;
  const std::vector<double>& x = inputs[0].values;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (const auto size = static_cast<float>(std::fabs(x[i])); std::isfinite(size)) {
      amax[block_of(i)] = (std::max)(amax[block_of(i)], size);
      largest = (std::max)(largest, size);
    }
  std::vector<float> counted = amax;
  if (has_nan_scales(scaling, quantizer.format))
    for (std::size_t i = 0; i < x.size(); ++i)
      if (!std::isfinite(x[i])) counted[block_of(i)] = std::numeric_limits<float>::infinity();
  for (std::size_t g = 0; g < scales.size(); ++g)
    if (scaling.policy == ScalePolicy::current)
      scales[g] = scale_for(scaling, quantizer.format, counted[g]);
    else if (!std::isfinite(counted[g]))
      scales[g] = std::numeric_limits<float>::quiet_NaN();
    else if (scaling.policy == ScalePolicy::delayed)
      scales[g] = setting.scale;

  const float limit = decode(quantizer.format, quantizer.format.max_finite_code());
  ReferenceTensor values{inputs[0].shape, {}};
  for (std::size_t i = 0; i < x.size(); ++i) {
    const float scale = scales[block_of(i)];
    auto value = static_cast<float>(x[i]);
    if (scaling.policy != ScalePolicy::none) {
      const float product = value * (1.0f / scale);
      value = std::isfinite(value) ? (std::clamp)(product, -limit, limit) : product;
    }
    const float rounded =
        decode(quantizer.format, encode(quantizer.format, value, quantizer.rounding,
                                        reference_quantize_word(sample, i / columns, i % columns)));
    values.values.push_back(static_cast<double>(codes ? rounded : rounded * scale));
  }
  ReferenceTensor grid{Shape{grid_rows, grid_columns}, {scales.begin(), scales.end()}};
  return {values, grid, {Shape{1}, {static_cast<double>(largest)}}};
}

inline OperatorSamples quantize_samples() {
  OperatorSamples result;
  result.reference = &quantize_reference;
  const auto add = [&](const Shape& shape, const QuantizeSetting& setting,
                       std::vector<std::size_t> lengths = {}) {
    result.samples.push_back(
        {.name = to_string(shape) + " " + to_string(setting.quantizer.format) + " granularity " +
                 std::to_string(static_cast<int>(setting.quantizer.scaling.granularity)),
         .inputs = {{.shape = shape, .low = -3, .high = 3}},
         .attributes = setting,
         .lengths = std::move(lengths)});
  };
  const Draw draw{.seed = 5, .stream = 2, .step = 1};
  const auto scaling = [](Granularity granularity, ScaleFormat format) {
    return Scaling{
        .policy = ScalePolicy::current, .granularity = granularity, .format = format, .margin = 1};
  };
  for (const Granularity granularity :
       {Granularity::tensor, Granularity::row, Granularity::block_1x128, Granularity::block_128x128,
        Granularity::group_32, Granularity::group_16, Granularity::block_16x16,
        Granularity::block_32x32})
    for (const bool along_rows : {false, true}) {
      add({19, 150}, {.quantizer = {.format = formats::fp8_e4m3fn,
                                    .scaling = scaling(granularity, ScaleFormat::power_of_two)},
                      .along_rows = along_rows});
      add({35, 7}, {.quantizer = {.format = formats::fp6_e3m2,
                                  .rounding = Rounding::stochastic,
                                  .scaling = scaling(granularity, ScaleFormat::fp32)},
                    .along_rows = along_rows,
                    .parameter = true,
                    .draw = draw});
    }
  add({7}, {.quantizer = {.format = formats::fp8_e4m3.with_bias(11)}});
  add({0, 4}, {.quantizer = {.format = formats::fp8_e5m2,
                             .scaling = scaling(Granularity::tensor, ScaleFormat::fp32)}});
  add({3, 0}, {.quantizer = {.format = formats::fp8_e5m2,
                             .scaling = scaling(Granularity::group_32, ScaleFormat::mx)}});
  add({2, 3, 5},
      {.quantizer = {.format = formats::fp8_e5m2, .scaling = {.policy = ScalePolicy::delayed}},
       .scale = 0.3f});
  add({13, 40},
      {.quantizer = {.format = formats::fp8_e4m3fn,
                     .rounding = Rounding::stochastic,
                     .scaling = scaling(Granularity::group_32, ScaleFormat::mx)},
       .draw = draw},
      {4, 0, 9});
  return result;
}

inline std::vector<ReferenceTensor> quantized_linear_reference(
    const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
  const auto& setting = sample.attributes.as<QuantizedLinearSetting>();
  Sample plain = sample;
  plain.attributes = LinearSetting{.activation = setting.activation, .dropout = setting.dropout};
  return linear_reference(plain, inputs);
}

// Without any conversion it is a linear layer.
inline OperatorSamples quantized_linear_samples() {
  static LinearFormats wide;
  OperatorSamples result = linear_samples();
  for (Sample& sample : result.samples) {
    const auto setting = sample.attributes.as<LinearSetting>();
    sample.attributes = QuantizedLinearSetting{.activation = setting.activation,
                                               .dropout = setting.dropout,
                                               .formats = &wide,
                                               .record = true};
  }
  result.reference = &quantized_linear_reference;
  return result;
}

}  // namespace SOMA_NAMESPACE::detail
