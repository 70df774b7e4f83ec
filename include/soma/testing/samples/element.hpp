#pragma once
// Samples of element-wise operators and dropout, and their formulas in double.

#include <soma/kernels/reference/element.hpp>
#include <soma/ops/element/binary.hpp>
#include <soma/ops/element/dropout.hpp>
#include <soma/ops/element/parametric.hpp>
#include <soma/ops/element/unary.hpp>
#include <soma/ops/samples.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

namespace SOMA_NAMESPACE::detail {

// The reference of one element, in double.
inline double dropped(const DropoutSetting& setting, const Sample& sample, std::size_t row,
                      std::size_t column, double value) {
  if (dropout_threshold(setting) == 0) return value;
  std::uint64_t index = token_index(row, 0, column);
  // Sequences are rows of the first dimension, each of which has inner rows.
  const Shape& x = sample.inputs[0].shape;
  const std::size_t inner = x.rank() < 3 || x[0] == 0 ? 1 : x.rows() / x[0];
  std::size_t begin = 0;
  for (std::size_t i = 0; i < sample.lengths.size(); begin += inner * sample.lengths[i++])
    if (row >= begin && row < begin + inner * sample.lengths[i])
      index = token_index(i, row - begin, column);
  Draw draw = setting.draw;
  draw.index = index;
  return random_word(draw) < dropout_threshold(setting)
             ? 0
             : value * static_cast<double>(
                           static_cast<float>(1 / (1 - static_cast<double>(setting.probability))));
}

inline OperatorSamples dropout_samples() {
  OperatorSamples result;
  const DropoutSetting setting{.probability = 0.4f, .draw = {.seed = 3, .stream = 1, .step = 2}};
  for (const Shape& shape : {Shape{5}, Shape{13, 37}, Shape{0, 4}, Shape{2, 3, 5}})
    for (const bool ragged : {false, true}) {
      if (ragged && shape.rank() != 2) continue;
      Sample sample{.name = to_string(shape) + (ragged ? " ragged" : ""),
                    .inputs = {{.shape = shape}},
                    .attributes = setting,
                    .lengths = {},
                    .error = 2 * 0x1p-24,
                    .gradient_error = 2 * 0x1p-24};
      if (ragged) sample.lengths = {shape[0] - shape[0] / 3, 0, shape[0] / 3};
      result.samples.push_back(sample);
    }
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    std::vector<ReferenceTensor> outputs{inputs[0]};
    const std::size_t columns = inputs[0].shape.columns();
    for (std::size_t i = 0; i < outputs[0].values.size(); ++i)
      outputs[0].values[i] = dropped(sample.attributes.as<DropoutSetting>(), sample, i / columns,
                                     i % columns, inputs[0].values[i]);
    return outputs;
  };
  return result;
}

inline OperatorSamples gated_samples() {
  OperatorSamples result;
  for (const Shape& shape : {Shape{2}, Shape{0, 6}, Shape{5, 34}, Shape{2, 3, 8}, Shape{3, 0}})
    result.samples.push_back({.name = to_string(shape),
                              .inputs = {{.shape = shape, .low = -6, .high = 6}},
                              // Below 6 units for the slope of silu, and two products.
                              .error = 8 * 0x1p-24,
                              .gradient_error = 8 * 0x1p-24});
  result.reference = [](const Sample&, const std::vector<ReferenceTensor>& inputs) {
    const Shape& shape = inputs[0].shape;
    const std::size_t columns = shape.columns() / 2;
    ReferenceTensor y{shape.with(shape.rank() - 1, columns), {}};
    for (std::size_t i = 0; i < y.shape.elements(); ++i) {
      const double* const row = &inputs[0].values[i / columns * 2 * columns + i % columns];
      y.values.push_back(row[0] / (1 + std::exp(-row[0])) * row[columns]);
    }
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

inline std::vector<Sample> unary_inputs(Unary function) {
  const double low = describe(function).least_sample, high = 6;
  std::vector<Sample> samples;
  for (const Shape& shape : {Shape{}, Shape{0, 3}, Shape{1}, Shape{7, 31}, Shape{2, 3, 17}})
    samples.push_back({.name = to_string(shape),
                       .inputs = {{.shape = shape, .low = low, .high = high}},
                       .attributes = {},
                       .lengths = {},
                       .error = 8 * 0x1p-24,
                       .gradient_error = 16 * 0x1p-24});
  return samples;
}

template <Unary function>
OperatorSamples unary_samples() {
  OperatorSamples result{.samples = unary_inputs(function), .reference = {}};
  result.reference = [](const Sample&, const std::vector<ReferenceTensor>& inputs) {
    std::vector<ReferenceTensor> outputs{inputs[0]};
    for (double& value : outputs[0].values) value = reference::unary(function, value);
    return outputs;
  };
  return result;
}

template <Binary function>
OperatorSamples binary_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& a, const Shape& b) {
    // Divisors stay away from zero, and a stays away from b if equal elements make a kink.
    result.samples.push_back(
        {.name = to_string(a) + " " + to_string(b),
         .inputs = {{.shape = a, .low = -2, .high = 2}, {.shape = b, .low = 2.5, .high = 4}},
         .attributes = {},
         .lengths = {},
         .error = 2 * 0x1p-24,
         .gradient_error = static_cast<double>(a.elements() + b.elements() + 4) * 0x1p-24});
  };
  add({}, {});
  add({7, 33}, {7, 33});
  add({7, 33}, {33});
  add({5, 1}, {3});
  add({2, 1, 4, 3}, {3, 1, 3});
  add({3, 2, 2, 5}, {2, 5});
  add({0, 3}, {3});
  result.reference = [](const Sample&, const std::vector<ReferenceTensor>& inputs) {
    const Shape shape = broadcast(inputs[0].shape, inputs[1].shape, "reference");
    ReferenceTensor y{shape, {}};
    const auto at = [&](const ReferenceTensor& x, std::size_t index) {
      std::size_t offset = 0, step = 1;
      for (std::size_t d = shape.rank(), e = x.shape.rank(); d-- > 0 && e > 0; index /= shape[d]) {
        --e;
        offset += (x.shape[e] == 1 ? 0 : index % shape[d]) * step;
        step *= x.shape[e];
      }
      return x.values[offset];
    };
    for (std::size_t i = 0; i < shape.elements(); ++i) {
      const double a = at(inputs[0], i), b = at(inputs[1], i);
      switch (function) {
        case Binary::add:
          y.values.push_back(a + b);
          break;
        case Binary::subtract:
          y.values.push_back(a - b);
          break;
        case Binary::multiply:
          y.values.push_back(a * b);
          break;
        case Binary::divide:
          y.values.push_back(a / b);
          break;
        case Binary::maximum:
          y.values.push_back((std::max)(a, b));
          break;
        case Binary::minimum:
          y.values.push_back((std::min)(a, b));
          break;
      }
    }
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

inline OperatorSamples parametric_inputs(std::vector<Attributes> settings, double low,
                                         double high) {
  OperatorSamples result;
  for (const Attributes& setting : settings)
    for (const Shape& shape : {Shape{}, Shape{0, 3}, Shape{7, 31}, Shape{2, 3, 17}})
      result.samples.push_back({.name = to_string(shape),
                                .inputs = {{.shape = shape, .low = low, .high = high}},
                                .attributes = setting,
                                .lengths = {},
                                .error = 2 * 0x1p-24,
                                .gradient_error = 4 * 0x1p-24});
  return result;
}

template <class Function>
OperatorSamples parametric_samples() {
  OperatorSamples result;
  if constexpr (std::is_same_v<Function, Clamp>)
    result = parametric_inputs({ClampSetting{-0.7f, 1.3f}}, -2, 2);
  else if constexpr (std::is_same_v<Function, Power>)
    result = parametric_inputs({PowerSetting{3}, PowerSetting{-0.5f}, PowerSetting{1.7f}}, 0.3, 2);
  else
    result = parametric_inputs({LeakySetting{0.2f}}, -2, 2);
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<typename Function::Setting>();
    std::vector<ReferenceTensor> outputs{inputs[0]};
    for (double& x : outputs[0].values) {
      if constexpr (std::is_same_v<Function, Power>)
        x = std::pow(x, static_cast<double>(setting.exponent));
      else
        x = Function::value(setting, x);
    }
    return outputs;
  };
  return result;
}

}  // namespace SOMA_NAMESPACE::detail
