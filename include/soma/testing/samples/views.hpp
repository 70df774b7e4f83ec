#pragma once
// Samples of views and casts, and their formulas in double.

#include <soma/ops/samples.hpp>
#include <soma/ops/views/cast.hpp>
#include <soma/ops/views/views.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

inline OperatorSamples cast_samples() {
  OperatorSamples result;
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    ReferenceTensor y = inputs[0];
    if (!is_floating(sample.attributes.as<CastSetting>().dtype))
      for (double& value : y.values) value = std::nearbyint(value);
    return std::vector<ReferenceTensor>{y};
  };
  const auto add = [&](std::string name, DType from, DType to, double error) {
    const double low = from == DType::uint8 ? 0 : from == DType::fp32 ? -1 : -100;
    result.samples.push_back({.name = std::move(name),
                              .inputs = {{.shape = Shape{7, 9},
                                          .dtype = from,
                                          .low = low,
                                          .high = from == DType::uint8 ? 255 : -low}},
                              .attributes = CastSetting{to, {}, {}},
                              .lengths = {},
                              .error = error,
                              .gradient_error = 0x1p-9});
  };
  add("to bf16", DType::fp32, DType::bf16, 0x1p-9);  // half a unit of 8 bits
  add("int8 to bf16", DType::int8, DType::bf16, 0);
  add("uint8 to fp32", DType::uint8, DType::fp32, 0);
  add("int32 to fp16", DType::int32, DType::fp16, 0);
  add("int64 to fp32", DType::int64, DType::fp32, 0);
  return result;
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

}  // namespace SOMA_NAMESPACE::detail
