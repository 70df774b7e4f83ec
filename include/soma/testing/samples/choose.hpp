#pragma once
// Samples of the operators that choose elements, and their formulas in double.

#include <soma/ops/choose/cumsum.hpp>
#include <soma/ops/choose/gather.hpp>
#include <soma/ops/choose/pad.hpp>
#include <soma/ops/choose/scatter_add.hpp>
#include <soma/ops/choose/top_k.hpp>
#include <soma/ops/choose/where.hpp>
#include <soma/ops/samples.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::detail {

inline OperatorSamples gather_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& x, const Shape& index, std::size_t dimension) {
    result.samples.push_back({.name = to_string(x) + " " + to_string(index),
                              .inputs = {{.shape = x},
                                         {.shape = index,
                                          .dtype = dimension == 0 ? DType::int32 : DType::int64,
                                          .low = 0,
                                          .high = static_cast<double>(x[dimension]) - 1}},
                              .attributes = DimensionSetting{dimension},
                              .lengths = {},
                              .error = 0,
                              .gradient_error = static_cast<double>(index.elements()) * 0x1p-24});
  };
  add({7}, {11}, 0);
  add({5, 33}, {5, 4}, 1);
  add({4, 3, 2}, {2, 9, 2}, 1);
  add({4, 6}, {3, 5}, 0);
  add({3, 4}, {0, 4}, 0);
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const std::size_t dimension = sample.attributes.as<DimensionSetting>().dimension;
    const Shape &x = inputs[0].shape, &shape = inputs[1].shape;
    const Strides strides = x.strides();
    ReferenceTensor y{shape, {}};
    for (std::size_t i = 0; i < shape.elements(); ++i) {
      std::size_t rest = i, from = 0;
      for (std::size_t d = shape.rank(); d-- > 0; rest /= shape[d])
        from += (d == dimension ? static_cast<std::size_t>(inputs[1].values[i]) : rest % shape[d]) *
                strides[d];
      y.values.push_back(inputs[0].values[from]);
    }
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

inline OperatorSamples pad_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& x, const PadSetting& setting) {
    result.samples.push_back({.name = to_string(x),
                              .inputs = {{.shape = x}},
                              .attributes = setting,
                              .lengths = {},
                              .error = 0,
                              .gradient_error = 2 * 0x1p-24});
  };
  add({5}, {{0, 0, 0, 2}, {0, 0, 0, 3}, 0.5f});
  add({3, 4}, {{0, 0, 1, 0}, {0, 0, 0, 2}, -2});
  add({2, 3, 4, 2}, {{1, 0, 2, 1}, {0, 2, 0, 1}, 0});
  add({0, 3}, {{0, 0, 1, 0}, {0, 0, 0, 1}, 1});
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<PadSetting>();
    const Shape &x = inputs[0].shape, shape = padded_shape(x, setting);
    const Strides strides = x.strides();
    ReferenceTensor y{shape, {}};
    for (std::size_t i = 0; i < shape.elements(); ++i) {
      std::size_t rest = i, from = 0;
      bool inside = true;
      for (std::size_t d = shape.rank(); d-- > 0; rest /= shape[d]) {
        // Dimensions before the last `most` stay as they are.
        const std::size_t entry = d + PadSetting::most, at = rest % shape[d];
        const std::size_t before = entry < x.rank() ? 0 : setting.before[entry - x.rank()];
        const bool own = at >= before && at < before + x[d];
        inside = inside && own;
        if (own) from += (at - before) * strides[d];
      }
      y.values.push_back(inside ? inputs[0].values[from] : static_cast<double>(setting.value));
    }
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

inline OperatorSamples top_k_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& x, const TopKSetting& setting) {
    // Values so far apart that no step of a difference quotient changes their order.
    std::vector<double> values;
    for (std::size_t i = 0; i < x.elements(); ++i)
      values.push_back(static_cast<double>(i * 37 % 101) * 0.0625 - 3);
    result.samples.push_back({.name = to_string(x) + " " + std::to_string(setting.k),
                              .inputs = {{.shape = x, .values = values}},
                              .attributes = setting,
                              .lengths = {},
                              .error = 0,
                              .gradient_error = 2 * 0x1p-24});
  };
  add({9}, {0, 1, false});
  add({5, 13}, {1, 1, true});
  add({5, 13}, {1, 4, false});
  add({3, 6, 4}, {1, 3, true});
  add({3, 6, 4}, {0, 1, false});
  add({0, 4}, {1, 2, false});
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<TopKSetting>();
    const Along along(inputs[0].shape, setting.dimension);
    const Shape shape = inputs[0].shape.with(setting.dimension, setting.k);
    ReferenceTensor values{shape, {}}, numbers{shape, {}};
    for (std::size_t i = 0; i < shape.elements(); ++i) {  // counts those that come before
      const std::size_t n = i % along.inner, rank = i / along.inner % setting.k;
      const std::size_t outer = i / along.inner / setting.k;
      const auto at = [&](std::size_t j) {
        return inputs[0].values[(outer * along.size + j) * along.inner + n];
      };
      for (std::size_t j = 0; j < along.size; ++j) {
        std::size_t before = 0;
        for (std::size_t other = 0; other < along.size; ++other)
          before += (setting.smallest ? at(other) < at(j) : at(other) > at(j)) ||
                            (at(other) == at(j) && other < j)
                        ? 1u
                        : 0u;
        if (before != rank) continue;
        values.values.push_back(at(j));
        numbers.values.push_back(static_cast<double>(j));
      }
    }
    return std::vector<ReferenceTensor>{values, numbers};
  };
  return result;
}

inline OperatorSamples where_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& condition, const Shape& a, const Shape& b) {
    const Shape shape = where_result(condition, a, b);
    result.samples.push_back(
        {.name = to_string(condition) + " " + to_string(a) + " " + to_string(b),
         .inputs = {{.shape = condition, .dtype = DType::uint8, .low = 0, .high = 1},
                    {.shape = a},
                    {.shape = b}},
         .attributes = {},
         .lengths = {},
         .error = 0,
         .gradient_error = static_cast<double>(shape.elements() + 1) * 0x1p-24});
  };
  add({}, {}, {});
  add({7, 33}, {7, 33}, {7, 33});
  add({5, 1}, {3}, {});
  add({3}, {2, 1, 3}, {4, 1});
  add({0, 3}, {3}, {1});
  result.reference = [](const Sample&, const std::vector<ReferenceTensor>& inputs) {
    const Shape shape = where_result(inputs[0].shape, inputs[1].shape, inputs[2].shape);
    ReferenceTensor y{shape, {}};
    const auto at = [&](const ReferenceTensor& x, std::size_t index) {
      std::size_t offset = 0, step = 1;
      for (std::size_t d = shape.rank(), e = x.shape.rank(); d-- > 0 && e > 0; index /= shape[d]) {
        --e;
        if (x.shape[e] != 1) offset += index % shape[d] * step;
        step *= x.shape[e];
      }
      return x.values[offset];
    };
    for (std::size_t i = 0; i < shape.elements(); ++i)
      y.values.push_back(at(inputs[0], i) != 0 ? at(inputs[1], i) : at(inputs[2], i));
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

inline OperatorSamples cumsum_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& x, std::size_t dimension) {
    // Sums are exact but for their last rounding; a magnitude of up to the size of the line.
    result.samples.push_back({.name = to_string(x) + " " + std::to_string(dimension),
                              .inputs = {{.shape = x}},
                              .attributes = DimensionSetting{dimension},
                              .lengths = {},
                              .error = 0x1p-24,
                              .gradient_error = 2 * 0x1p-24});
  };
  add({9}, 0);
  add({5, 33}, 1);
  add({4, 3, 6}, 1);
  add({4, 3}, 0);
  add({0, 4}, 1);
  add({3, 0}, 1);
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const Along along(inputs[0].shape, sample.attributes.as<DimensionSetting>().dimension);
    ReferenceTensor y = inputs[0];
    for (std::size_t i = 0; i < y.values.size(); ++i)
      if (i / along.inner % along.size != 0) y.values[i] += y.values[i - along.inner];
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

inline OperatorSamples scatter_add_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& x, const Shape& values, const Shape& index,
                       std::size_t dimension) {
    result.samples.push_back({.name = to_string(x) + " " + to_string(index),
                              .inputs = {{.shape = x},
                                         {.shape = values},
                                         {.shape = index,
                                          .dtype = dimension == 0 ? DType::int32 : DType::int64,
                                          .low = 0,
                                          .high = static_cast<double>(x[dimension]) - 1}},
                              .attributes = DimensionSetting{dimension},
                              .lengths = {},
                              .error = static_cast<double>(index[dimension] + 1) * 0x1p-24,
                              .gradient_error = 2 * 0x1p-24});
  };
  add({7}, {11}, {11}, 0);
  add({5, 3}, {5, 12}, {5, 12}, 1);
  add({4, 3, 2}, {3, 9, 2}, {2, 8, 2}, 1);  // parts of the values and of x
  add({4, 6}, {3, 6}, {3, 5}, 0);
  add({3, 4}, {0, 4}, {0, 4}, 0);
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const std::size_t dimension = sample.attributes.as<DimensionSetting>().dimension;
    const Shape& index = inputs[2].shape;
    const Strides to = inputs[0].shape.strides(), from = inputs[1].shape.strides();
    ReferenceTensor y = inputs[0];
    for (std::size_t i = 0; i < index.elements(); ++i) {
      std::size_t rest = i, target = 0, source = 0;
      for (std::size_t d = index.rank(); d-- > 0; rest /= index[d]) {
        const std::size_t at = rest % index[d];
        source += at * from[d];
        target += (d == dimension ? static_cast<std::size_t>(inputs[2].values[i]) : at) * to[d];
      }
      y.values[target] += inputs[1].values[source];
    }
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

}  // namespace SOMA_NAMESPACE::detail
