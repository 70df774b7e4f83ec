#pragma once
// Samples of the operators of sparse training, and their formulas in double.

#include <soma/ops/samples.hpp>
#include <soma/ops/sparse/bag_logits.hpp>
#include <soma/ops/sparse/bag_loss.hpp>
#include <soma/ops/sparse/embedding_bag.hpp>
#include <soma/ops/sparse/list_loss.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

inline OperatorSamples embedding_bag_samples() {
  OperatorSamples result;
  const auto add = [&](std::size_t rows, std::size_t columns, std::vector<std::size_t> lengths,
                       BagMode mode, bool weighted) {
    std::size_t count = 0, longest = 0;
    for (const std::size_t length : lengths) {
      count += length;
      longest = (std::max)(longest, length);
    }
    Sample sample{.name = std::to_string(lengths.size()) + " bags of " + std::to_string(count) +
                          " ids, " + std::to_string(columns) + " columns" +
                          (mode == BagMode::mean ? ", mean" : "") + (weighted ? ", weights" : ""),
                  .inputs = {{.shape = Shape{rows, columns}},
                             {.shape = Shape{count},
                              .dtype = rows % 2 == 0 ? DType::int64 : DType::int32,
                              .low = 0,
                              .high = static_cast<double>(rows - 1)}},
                  .attributes = EmbeddingBagSetting{mode},
                  .lengths = std::move(lengths),
                  // Each of n additions and a product rounds once, and so does the scale.
                  .error = static_cast<double>(2 * longest + 2) * 0x1p-24,
                  .gradient_error = static_cast<double>(2 * count + 2) * 0x1p-24};
    if (weighted)
      // Halves are exact in every type in which a test may store them.
      sample.inputs.push_back({.shape = Shape{count}, .values = {}, .differentiable = false});
    for (std::size_t i = 0; weighted && i < count; ++i)
      sample.inputs[2].values.push_back(static_cast<double>(i % 5) * 0.5 - 1);
    result.samples.push_back(std::move(sample));
  };
  add(7, 16, {5, 0, 11, 7}, BagMode::sum, false);
  add(6, 5, {5, 1, 9}, BagMode::mean, false);
  add(9, 33, {4, 0, 0, 6, 2}, BagMode::sum, true);
  add(8, 80, {3, 140}, BagMode::mean, true);
  add(3, 4, {0, 0}, BagMode::mean, false);
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const std::size_t columns = inputs[0].shape[1];
    const bool mean = sample.attributes.as<EmbeddingBagSetting>().mode == BagMode::mean;
    const bool weighted = inputs.size() > 2 && inputs[2].defined;
    ReferenceTensor y{Shape{sample.lengths.size(), columns}, {}};
    std::size_t at = 0;
    for (const std::size_t length : sample.lengths) {
      std::vector<double> sum(columns);
      for (std::size_t end = at + length; at < end; ++at)
        for (std::size_t c = 0; c < columns; ++c)
          sum[c] += (weighted ? inputs[2].values[at] : 1.0) *
                    inputs[0].values[static_cast<std::size_t>(inputs[1].values[at]) * columns + c];
      for (const double value : sum)
        y.values.push_back(mean && length != 0 ? value / static_cast<double>(length) : value);
    }
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

inline ReferenceTensor list_loss_reference(const ReferenceTensor& logits,
                                           const std::vector<double>& offsets,
                                           const std::vector<double>& columns,
                                           const ListLossSetting& setting) {
  const std::size_t rows = logits.shape[0], width = logits.shape[1];
  double total = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    const double* z = logits.values.data() + i * width;
    const double count = offsets[i + 1] - offsets[i];
    double sum = 0, loss = 0;
    for (std::size_t c = 0; c < width; ++c) {
      sum += std::exp(z[c]);
      if (setting.loss == ListLoss::binary) loss += std::log(1 + std::exp(z[c]));
    }
    for (auto k = static_cast<std::size_t>(offsets[i]);
         k < static_cast<std::size_t>(offsets[i + 1]); ++k) {
      const double chosen = z[static_cast<std::size_t>(columns[k])];
      loss += setting.loss == ListLoss::binary ? -chosen : (std::log(sum) - chosen) / count;
    }
    total += loss;
  }
  if (setting.reduction == LossReduction::mean) total /= static_cast<double>(rows);
  return {Shape{}, {total}};
}

inline OperatorSamples list_loss_samples() {
  OperatorSamples result;
  const auto add = [&](std::size_t rows, std::size_t width, std::vector<double> offsets,
                       std::vector<double> columns, ListLossSetting setting) {
    result.samples.push_back(
        {.name = std::to_string(rows) + " x " + std::to_string(width) +
                 (setting.loss == ListLoss::binary ? ", binary" : ", softmax"),
         .inputs = {{.shape = Shape{rows, width}, .low = -3, .high = 3},
                    {.shape = Shape{rows + 1}, .dtype = DType::int64, .values = offsets},
                    {.shape = Shape{columns.size()}, .dtype = DType::int32, .values = columns}},
         .attributes = setting,
         .error = static_cast<double>(width + 16) * 0x1p-24,
         .gradient_error = static_cast<double>(width + 16) * 0x1p-24});
  };
  add(3, 5, {0, 1, 1, 4}, {2, 0, 3, 4}, {});
  add(2, 33, {0, 2, 3}, {0, 32, 7}, {.reduction = LossReduction::sum});
  add(3, 5, {0, 1, 1, 4}, {2, 0, 3, 4}, {.loss = ListLoss::binary});
  add(1, 1, {0, 1}, {0}, {.loss = ListLoss::binary, .reduction = LossReduction::sum});
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    return std::vector<ReferenceTensor>{list_loss_reference(
        inputs[0], inputs[1].values, inputs[2].values, sample.attributes.as<ListLossSetting>())};
  };
  return result;
}

inline OperatorSamples bag_logits_samples() {
  OperatorSamples result;
  const auto add = [&](std::size_t classes, std::size_t width, std::vector<std::size_t> lengths) {
    std::size_t count = 0;
    for (const std::size_t length : lengths) count += length;
    const std::size_t bags = lengths.size();
    result.samples.push_back(
        {.name = std::to_string(bags) + " bags of " + std::to_string(count) + " of " +
                 std::to_string(classes) + " classes, " + std::to_string(width) + " columns",
         .inputs = {{.shape = Shape{count},
                     .dtype = DType::int32,
                     .low = 0,
                     .high = static_cast<double>(classes - 1)},
                    {.shape = Shape{bags, width}},
                    {.shape = Shape{classes, width}},
                    {.shape = Shape{classes, 1}}},
         .attributes = {},
         .lengths = std::move(lengths),
         // A fused multiply-add rounds once; a gradient adds as many products as there are ids.
         .error = static_cast<double>(width + 6) * 0x1p-24,
         .gradient_error = static_cast<double>(2 * count + 6) * 0x1p-24});
  };
  add(7, 16, {5, 0, 11, 4});
  add(9, 33, {1, 6});
  add(3, 5, {2, 2, 2});
  add(4, 8, {0, 0});
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const std::size_t width = inputs[1].shape[1];
    ReferenceTensor y{inputs[0].shape, {}};
    std::size_t at = 0;
    for (std::size_t bag = 0; bag < sample.lengths.size(); ++bag)
      for (const std::size_t end = at + sample.lengths[bag]; at < end; ++at) {
        const auto id = static_cast<std::size_t>(inputs[0].values[at]);
        double sum = inputs[3].values[id];
        for (std::size_t k = 0; k < width; ++k)
          sum += inputs[1].values[bag * width + k] * inputs[2].values[id * width + k];
        y.values.push_back(sum);
      }
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

inline OperatorSamples bag_loss_samples() {
  OperatorSamples result;
  const auto add = [&](std::vector<std::size_t> lengths, std::vector<double> offsets,
                       std::vector<double> places, LossReduction reduction) {
    std::size_t count = 0, longest = 0;
    for (const std::size_t length : lengths) {
      count += length;
      longest = (std::max)(longest, length);
    }
    result.samples.push_back(
        {.name = std::to_string(lengths.size()) + " bags of " + std::to_string(count),
         .inputs = {{.shape = Shape{count}, .low = -3, .high = 3},
                    {.shape = Shape{offsets.size()}, .dtype = DType::int64, .values = offsets},
                    {.shape = Shape{places.size()}, .dtype = DType::int32, .values = places}},
         .attributes = BagLossSetting{reduction},
         .lengths = std::move(lengths),
         .error = static_cast<double>(longest + 16) * 0x1p-24,
         .gradient_error = static_cast<double>(longest + 16) * 0x1p-24});
  };
  add({5, 1, 9}, {0, 1, 1, 4}, {2, 0, 3, 8}, LossReduction::mean);
  add({3, 0, 33, 4}, {0, 1, 1, 3, 4}, {0, 31, 32, 2}, LossReduction::sum);
  add({1}, {0, 1}, {0}, LossReduction::mean);
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    double total = 0;
    std::size_t first = 0;
    for (std::size_t bag = 0; bag < sample.lengths.size(); first += sample.lengths[bag++]) {
      double sum = 0;
      for (std::size_t i = 0; i < sample.lengths[bag]; ++i)
        sum += std::exp(inputs[0].values[first + i]);
      const double begin = inputs[1].values[bag], end = inputs[1].values[bag + 1];
      for (auto k = static_cast<std::size_t>(begin); k < static_cast<std::size_t>(end); ++k) {
        const auto place = static_cast<std::size_t>(inputs[2].values[k]);
        total += (std::log(sum) - inputs[0].values[first + place]) / (end - begin);
      }
    }
    if (sample.attributes.as<BagLossSetting>().reduction == LossReduction::mean)
      total /= static_cast<double>(sample.lengths.size());
    return std::vector<ReferenceTensor>{{Shape{}, {total}}};
  };
  return result;
}

}  // namespace SOMA_NAMESPACE::detail
