#pragma once
// Samples of losses, and their formulas in double.

#include <soma/kernels/reference/loss.hpp>
#include <soma/ops/loss/cosine.hpp>
#include <soma/ops/loss/cross_entropy.hpp>
#include <soma/ops/loss/ctc.hpp>
#include <soma/ops/loss/element_loss.hpp>
#include <soma/ops/loss/loss.hpp>
#include <soma/ops/loss/nll.hpp>
#include <soma/ops/samples.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

inline double reduced_loss(const ReferenceTensor& losses, LossReduction reduction, double count) {
  double total = 0;
  for (const double loss : losses.values) total += loss;
  return reduction == LossReduction::mean ? total / count : total;
}

inline OperatorSamples cross_entropy_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& logits, const CrossEntropySetting& setting,
                       std::vector<double> labels, std::vector<std::size_t> lengths) {
    const double error = static_cast<double>(logits.elements() + 32) * 0x1p-24;
    result.samples.push_back(
        {.name = to_string(logits),
         .inputs = {{.shape = logits, .low = -3, .high = 3},
                    {.shape = Shape{labels.size()}, .dtype = DType::int64, .values = labels}},
         .attributes = setting,
         .lengths = std::move(lengths),
         .error = error,
         .gradient_error = error});
  };
  add({5, 3}, {}, {0, 2, 1, 1, 0}, {});
  add({5, 3}, {.reduction = LossReduction::sum}, {0, -100, 1, 1, 0}, {2, 3});
  add({4, 37}, {.label_smoothing = 0.1f, .ignore_index = 7}, {0, 36, 7, 12}, {});
  add({3, 2}, {.reduction = LossReduction::none, .label_smoothing = 0.2f}, {1, 0, 1}, {});
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<CrossEntropySetting>();
    const std::size_t columns = inputs[0].shape.columns();
    const double smoothing = static_cast<double>(setting.label_smoothing);
    ReferenceTensor losses{inputs[1].shape, {}};
    double counted = 0;
    for (std::size_t row = 0; row < inputs[0].shape.rows(); ++row) {
      const double* x = &inputs[0].values[row * columns];
      const auto label = static_cast<std::int64_t>(inputs[1].values[row]);
      double sum = 0, mean = 0;
      for (std::size_t c = 0; c < columns; ++c) {
        sum += std::exp(x[c]);
        mean += x[c] / static_cast<double>(columns);
      }
      const bool counts = label != setting.ignore_index;
      counted += counts ? 1 : 0;
      losses.values.push_back(counts ? (1 - smoothing) * (std::log(sum) - x[label]) +
                                           smoothing * (std::log(sum) - mean)
                                     : 0);
    }
    if (setting.reduction == LossReduction::none) return std::vector<ReferenceTensor>{losses};
    return std::vector<ReferenceTensor>{
        {Shape{}, {reduced_loss(losses, setting.reduction, counted)}}};
  };
  return result;
}

inline OperatorSamples element_loss_samples() {
  OperatorSamples result;
  struct Named {
    ElementLoss loss;
    std::string_view name;
    float parameter = 1;
  };
  for (const Named& each : {Named{ElementLoss::squared_error, "squared error"},
                            {ElementLoss::binary_cross_entropy_logits, "binary cross entropy"},
                            {ElementLoss::absolute_error, "absolute error"},
                            {ElementLoss::huber, "huber", 1.5f},
                            {ElementLoss::smooth_absolute, "smooth absolute error", 0.5f},
                            {ElementLoss::hinge, "hinge", 0.75f},
                            {ElementLoss::divergence, "divergence"}})
    for (const LossReduction reduction :
         {LossReduction::mean, LossReduction::sum, LossReduction::none}) {
      const double error = 64 * 0x1p-24;
      result.samples.push_back(
          {.name = std::string(each.name),
           .inputs = {{.shape = Shape{5, 7}, .low = -3, .high = 3},
                      {.shape = Shape{5, 7}, .low = 0, .high = 1, .differentiable = false}},
           .attributes = ElementLossSetting{each.loss, reduction, 0, each.parameter},
           .lengths = {},
           .error = error,
           .gradient_error = error});
    }
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<ElementLossSetting>();
    ReferenceTensor losses{inputs[0].shape, {}};
    for (std::size_t i = 0; i < inputs[0].values.size(); ++i) {
      const double x = inputs[0].values[i], t = inputs[1].values[i];
      losses.values.push_back(
          reference::element_loss(setting.loss, x, t, static_cast<double>(setting.parameter)));
    }
    if (setting.reduction == LossReduction::none) return std::vector<ReferenceTensor>{losses};
    return std::vector<ReferenceTensor>{
        {Shape{},
         {reduced_loss(losses, setting.reduction, static_cast<double>(losses.values.size()))}}};
  };
  return result;
}

inline OperatorSamples nll_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& x, const CrossEntropySetting& setting,
                       std::vector<double> labels, std::vector<std::size_t> lengths) {
    const double error = static_cast<double>(x.elements() + 2) * 0x1p-24;
    result.samples.push_back(
        {.name = to_string(x),
         .inputs = {{.shape = x, .low = -3, .high = 0},
                    {.shape = Shape{labels.size()}, .dtype = DType::int64, .values = labels}},
         .attributes = setting,
         .lengths = std::move(lengths),
         .error = error,
         .gradient_error = error});
  };
  add({5, 3}, {}, {0, 2, 1, 1, 0}, {});
  add({5, 3}, {.reduction = LossReduction::sum}, {0, -100, 1, 1, 0}, {2, 3});
  add({4, 37}, {.ignore_index = 7}, {0, 36, 7, 12}, {});
  add({3, 2}, {.reduction = LossReduction::none}, {1, 0, 1}, {});
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<CrossEntropySetting>();
    const std::size_t columns = inputs[0].shape.columns();
    ReferenceTensor losses{inputs[1].shape, {}};
    double counted = 0;
    for (std::size_t row = 0; row < inputs[0].shape.rows(); ++row) {
      const auto label = static_cast<std::int64_t>(inputs[1].values[row]);
      const bool counts = label != setting.ignore_index;
      counted += counts ? 1 : 0;
      losses.values.push_back(
          counts ? -inputs[0].values[row * columns + static_cast<std::size_t>(label)] : 0);
    }
    if (setting.reduction == LossReduction::none) return std::vector<ReferenceTensor>{losses};
    return std::vector<ReferenceTensor>{
        {Shape{}, {reduced_loss(losses, setting.reduction, counted)}}};
  };
  return result;
}

// The probability of labels, by all ways to give a class to each row: classes^rows of them.
inline double ctc_probability(const double* x, std::size_t rows, std::size_t classes,
                              std::size_t blank, const std::vector<std::size_t>& labels) {
  std::vector<std::size_t> way(rows, 0);
  double total = 0;
  while (true) {
    std::vector<std::size_t> read;
    double sum = 0;
    for (std::size_t t = 0; t < rows; ++t) {
      sum += x[t * classes + way[t]];
      if (way[t] != blank && (t == 0 || way[t] != way[t - 1])) read.push_back(way[t]);
    }
    if (read == labels) total += std::exp(sum);
    std::size_t t = 0;
    while (t < rows && ++way[t] == classes) way[t++] = 0;
    if (t == rows) return total;
  }
}

inline OperatorSamples ctc_samples() {
  OperatorSamples result;
  const auto add = [&](std::size_t classes, const CtcSetting& setting,
                       std::vector<std::size_t> lengths,
                       const std::vector<std::vector<double>>& labels) {
    std::size_t rows = 0;
    for (const std::size_t length : lengths) rows += length;
    std::vector<double> all, begins{0};
    for (const std::vector<double>& own : labels) {
      all.insert(all.end(), own.begin(), own.end());
      begins.push_back(static_cast<double>(all.size()));
    }
    // A row's states are below 8 in magnitude, and each goes through 8 operations a row, both ways.
    const double error = static_cast<double>(rows + 2) * 128 * 0x1p-24;
    result.samples.push_back(
        {.name = std::to_string(rows) + " rows, " + std::to_string(all.size()) + " labels",
         .inputs = {{.shape = Shape{rows, classes}, .low = -3, .high = -0.5},
                    {.shape = Shape{all.size()}, .dtype = DType::int64, .values = all},
                    {.shape = Shape{begins.size()}, .dtype = DType::int64, .values = begins}},
         .attributes = setting,
         .lengths = std::move(lengths),
         .error = error,
         .gradient_error = error});
  };
  add(3, {}, {4}, {{1, 2}});
  add(4, {.blank = 2}, {5, 2, 6}, {{0, 0, 3}, {}, {1, 0, 1}});
  add(3, {}, {3, 1, 0, 4}, {{1, 1}, {2}, {}, {2, 1, 2, 1}});
  add(2, {.zero_infinity = true}, {2, 3}, {{1, 1}, {1, 1}});  // the first cannot have its labels
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<CtcSetting>();
    const std::size_t classes = inputs[0].shape[1];
    ReferenceTensor losses{Shape{sample.lengths.size()}, {}};
    std::size_t row = 0;
    for (std::size_t s = 0; s < sample.lengths.size(); row += sample.lengths[s++]) {
      std::vector<std::size_t> labels;
      for (auto i = static_cast<std::size_t>(inputs[2].values[s]);
           i < static_cast<std::size_t>(inputs[2].values[s + 1]); ++i)
        labels.push_back(static_cast<std::size_t>(inputs[1].values[i]));
      const double loss =
          -std::log(ctc_probability(inputs[0].values.data() + row * classes, sample.lengths[s],
                                    classes, setting.blank, labels));
      losses.values.push_back(std::isinf(loss) && setting.zero_infinity ? 0 : loss);
    }
    return std::vector<ReferenceTensor>{losses};
  };
  return result;
}

inline OperatorSamples cosine_samples() {
  OperatorSamples result;
  const auto add = [&](const Shape& shape, const CosineLossSetting& setting,
                       std::vector<std::size_t> lengths) {
    std::vector<double> marks;
    for (std::size_t i = 0; i < shape[0]; ++i)
      marks.push_back(i % 3 == 0 ? 1 : i % 3 == 1 ? -1 : 0);
    result.samples.push_back(
        {.name = to_string(shape),
         .inputs = {{.shape = shape},
                    {.shape = shape},
                    {.shape = Shape{shape[0]}, .values = marks, .differentiable = false}},
         .attributes = setting,
         .lengths = std::move(lengths),
         .error = static_cast<double>(shape[0] + 4) * 0x1p-24,
         .gradient_error = 8 * 0x1p-24});
  };
  add({7, 5}, {}, {});
  add({8, 33}, {-0.5f, LossReduction::sum, 0}, {3, 0, 5});
  add({4, 3}, {0.25f, LossReduction::none, 0}, {});
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const auto& setting = sample.attributes.as<CosineLossSetting>();
    const std::size_t columns = inputs[0].shape[1];
    ReferenceTensor losses{Shape{inputs[0].shape[0]}, {}};
    for (std::size_t row = 0; row < losses.shape[0]; ++row) {
      double product = 0, a = 1e-12, b = 1e-12;
      for (std::size_t i = row * columns; i < (row + 1) * columns; ++i) {
        product += inputs[0].values[i] * inputs[1].values[i];
        a += inputs[0].values[i] * inputs[0].values[i];
        b += inputs[1].values[i] * inputs[1].values[i];
      }
      const double cosine = product / std::sqrt(a * b), mark = inputs[2].values[row];
      const double above = cosine - static_cast<double>(setting.margin);
      losses.values.push_back(mark == 1 ? 1 - cosine : mark == -1 && above > 0 ? above : 0);
    }
    if (setting.reduction == LossReduction::none) return std::vector<ReferenceTensor>{losses};
    return std::vector<ReferenceTensor>{
        {Shape{},
         {reduced_loss(losses, setting.reduction, static_cast<double>(losses.values.size()))}}};
  };
  return result;
}

}  // namespace SOMA_NAMESPACE::detail
