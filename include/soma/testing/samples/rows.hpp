#pragma once
// Samples of norms, softmax, embedding and reductions, and their formulas in double.

#include <soma/ops/rows/batch_norm.hpp>
#include <soma/ops/rows/embedding.hpp>
#include <soma/ops/rows/norm.hpp>
#include <soma/ops/rows/reduce.hpp>
#include <soma/ops/rows/softmax.hpp>
#include <soma/ops/samples.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

inline OperatorSamples norm_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& x, const NormSetting& setting,
                       std::vector<std::size_t> lengths) {
    const Shape columns{x.columns()};
    // A normalised value is divided by a standard deviation of about 0.6: errors of sums over the
    // row and of sums over rows grow by its inverse, squared in the gradient.
    const double size = static_cast<double>(x.columns() + x.rows() + 16);
    result.samples.push_back({.name = to_string(x) + (setting.rms ? " rms" : ""),
                              .inputs = {{.shape = x},
                                         {.shape = columns, .low = 0.5, .high = 1.5},
                                         {.shape = columns, .left_out = setting.rms}},
                              .attributes = setting,
                              .lengths = std::move(lengths),
                              .error = 4 * size * 0x1p-24,
                              .gradient_error = 16 * size * 0x1p-24});
  };
  for (const bool rms : {false, true}) {
    add({5, 33}, {1e-5f, rms}, {2, 3});
    add({17, 16}, {1e-12f, rms}, {});
    add({2, 3, 24}, {1e-5f, rms}, {});
    add({0, 8}, {1e-5f, rms}, {});
    add({13}, {1e-5f, rms}, {});
  }
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<NormSetting>();
    const std::size_t columns = inputs[0].shape.columns();
    ReferenceTensor y{inputs[0].shape, inputs[0].values};
    for (std::size_t row = 0; row < y.values.size(); row += columns) {
      double mean = 0, variance = 0;
      for (std::size_t c = 0; c < columns && !setting.rms; ++c) mean += y.values[row + c];
      mean /= static_cast<double>(columns);
      for (std::size_t c = 0; c < columns; ++c)
        variance += (y.values[row + c] - mean) * (y.values[row + c] - mean);
      variance /= static_cast<double>(columns);
      for (std::size_t c = 0; c < columns; ++c)
        y.values[row + c] = (y.values[row + c] - mean) /
                                std::sqrt(variance + static_cast<double>(setting.epsilon)) *
                                inputs[1].values[c] +
                            (inputs.size() > 2 && inputs[2].defined ? inputs[2].values[c] : 0);
    }
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

inline OperatorSamples batch_norm_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& shape, bool given, std::vector<std::size_t> lengths) {
    const Shape channels{shape[1]};
    const double error = static_cast<double>(shape.elements() / shape[1] + 64) * 0x1p-24;
    Sample sample{.name = to_string(shape) + (given ? " given" : ""),
                  .inputs = {{.shape = shape, .low = -2, .high = 3},
                             {.shape = channels, .low = 0.5, .high = 2},
                             {.shape = channels}},
                  .attributes = BatchNormSetting{1e-3f, given, nullptr},
                  .lengths = std::move(lengths),
                  .error = error,
                  .gradient_error = 4 * error};
    if (given) {
      sample.inputs.push_back({.shape = channels, .differentiable = false});
      sample.inputs.push_back({.shape = channels, .low = 0.5, .high = 2, .differentiable = false});
    }
    result.samples.push_back(std::move(sample));
  };
  add({6, 3}, false, {});
  add({5, 2, 3, 4}, false, {2, 1, 1, 1});
  add({3, 4, 33}, false, {});
  add({4, 3, 5}, true, {});
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<BatchNormSetting>();
    const Planes planes(inputs[0].shape);
    ReferenceTensor y{inputs[0]};
    for (std::size_t c = 0; c < planes.channels; ++c) {
      std::vector<std::size_t> own;
      for (std::size_t i = 0; i < y.values.size(); ++i)
        if (i / planes.pixels % planes.channels == c) own.push_back(i);
      double mean = 0, variance = 0;
      const auto count = static_cast<double>(own.size());
      for (const std::size_t i : own) mean += inputs[0].values[i] / count;
      for (const std::size_t i : own)
        variance += (inputs[0].values[i] - mean) * (inputs[0].values[i] - mean) / count;
      if (setting.given) {
        mean = inputs[3].values[c];
        variance = inputs[4].values[c];
      }
      const double deviation = std::sqrt(variance + static_cast<double>(setting.epsilon));
      for (const std::size_t i : own)
        y.values[i] =
            (inputs[0].values[i] - mean) / deviation * inputs[1].values[c] + inputs[2].values[c];
    }
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

inline OperatorSamples softmax_samples() {
  OperatorSamples result;
  for (const bool logarithm : {false, true})
    for (const Shape& shape : {Shape{1}, Shape{5, 33}, Shape{3, 2, 16}, Shape{0, 4}, Shape{7, 2}})
      result.samples.push_back(
          {.name = to_string(shape) + (logarithm ? " logarithm" : ""),
           .inputs = {{.shape = shape, .low = -4, .high = 4}},
           .attributes = SoftmaxSetting{logarithm},
           .lengths = {},
           .error = static_cast<double>(shape.columns() + 16) * 0x1p-24,
           .gradient_error = 4 * static_cast<double>(shape.columns() + 16) * 0x1p-24});
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    ReferenceTensor y{inputs[0]};
    const std::size_t columns = y.shape.columns();
    for (std::size_t row = 0; row < y.values.size(); row += columns) {
      double sum = 0;
      for (std::size_t c = 0; c < columns; ++c) sum += std::exp(y.values[row + c]);
      for (std::size_t c = 0; c < columns; ++c)
        y.values[row + c] = sample.attributes.as<SoftmaxSetting>().logarithm
                                ? y.values[row + c] - std::log(sum)
                                : std::exp(y.values[row + c]) / sum;
    }
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

inline OperatorSamples embedding_samples() {
  OperatorSamples result;
  const auto add = [&](std::size_t rows, std::size_t columns, const Shape& ids, bool dense,
                       std::vector<std::size_t> lengths) {
    const double error = static_cast<double>(ids.elements() + 1) * 0x1p-24;
    result.samples.push_back({.name = std::to_string(rows) + " rows, ids " + to_string(ids),
                              .inputs = {{.shape = Shape{rows, columns}},
                                         {.shape = ids,
                                          .dtype = dense ? DType::int64 : DType::int32,
                                          .low = 0,
                                          .high = static_cast<double>(rows - 1)}},
                              .attributes = EmbeddingSetting{dense},
                              .lengths = std::move(lengths),
                              .error = 0,
                              .gradient_error = error});
  };
  add(7, 5, Shape{23}, false, {5, 0, 11, 7});
  add(3, 33, Shape{40}, true, {});
  add(4, 3, Shape{2, 5}, false, {});
  add(4, 3, Shape{0}, true, {});
  result.reference = [](const Sample&, const std::vector<ReferenceTensor>& inputs) {
    const std::size_t columns = inputs[0].shape[1];
    std::vector<std::size_t> sizes(inputs[1].shape.begin(), inputs[1].shape.end());
    sizes.push_back(columns);
    ReferenceTensor y{Shape(sizes), {}};
    for (const double id : inputs[1].values)
      for (std::size_t c = 0; c < columns; ++c)
        y.values.push_back(inputs[0].values[static_cast<std::size_t>(id) * columns + c]);
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

inline OperatorSamples reduce_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& shape, std::uint32_t dimensions, bool mean,
                       std::vector<std::size_t> lengths) {
    result.samples.push_back(
        {.name = to_string(shape) + (mean ? " mean " : " sum ") + std::to_string(dimensions),
         .inputs = {{.shape = shape}},
         .attributes = ReduceSetting{dimensions, mean},
         .lengths = std::move(lengths),
         .error = static_cast<double>(shape.elements() + 1) * 0x1p-24,
         .gradient_error = 2 * 0x1p-24});
  };
  add({}, ~0u, false, {});
  add({5}, ~0u, true, {});
  add({13, 7}, 1, false, {5, 0, 8});
  add({13, 7}, 2, false, {});
  add({3, 5, 2, 4}, 0b0101, true, {});
  add({0, 3}, 1, false, {});
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<ReduceSetting>();
    const ReferenceTensor& x = inputs[0];
    ReferenceTensor y{reduced_shape(x.shape, setting.dimensions), {}};
    y.values.assign(y.shape.elements(), 0.0);
    for (std::size_t i = 0; i < x.values.size(); ++i) {
      std::size_t rest = i, to = 0, step = 1;
      for (std::size_t d = x.shape.rank(); d-- > 0; rest /= x.shape[d])
        if ((setting.dimensions >> d & 1) == 0) {
          to += rest % x.shape[d] * step;
          step *= x.shape[d];
        }
      y.values[to] += x.values[i];
    }
    if (setting.mean)
      for (double& value : y.values)
        value *= static_cast<double>(y.values.size()) / static_cast<double>(x.values.size());
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

}  // namespace SOMA_NAMESPACE::detail
