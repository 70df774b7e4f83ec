#pragma once
// Samples of recurrent layers and rotary positions, and their formulas in double.

#include <soma/ops/samples.hpp>
#include <soma/ops/sequence/gru.hpp>
#include <soma/ops/sequence/lstm.hpp>
#include <soma/ops/sequence/rnn.hpp>
#include <soma/ops/sequence/rotary.hpp>
#include <soma/ops/sequence/sequence_pool.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

inline double reference_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A step of one row: x and h are the gates; state and cell are updated.
using RecurrentStep = void (*)(std::size_t hidden, const double* x, const std::vector<double>& h,
                               double* state, double* cell);

inline void gru_reference_step(std::size_t hidden, const double* x, const std::vector<double>& h,
                               double* state, double*) {
  for (std::size_t i = 0; i < hidden; ++i) {
    const double r = reference_sigmoid(x[i] + h[i]),
                 z = reference_sigmoid(x[hidden + i] + h[hidden + i]),
                 n = std::tanh(x[2 * hidden + i] + r * h[2 * hidden + i]);
    state[i] = (1 - z) * n + z * state[i];
  }
}
inline void lstm_reference_step(std::size_t hidden, const double* x, const std::vector<double>& h,
                                double* state, double* cell) {
  for (std::size_t i = 0; i < hidden; ++i) {
    const auto sum = [&](std::size_t gate) { return x[gate * hidden + i] + h[gate * hidden + i]; };
    cell[i] = reference_sigmoid(sum(1)) * cell[i] + reference_sigmoid(sum(0)) * std::tanh(sum(2));
    state[i] = reference_sigmoid(sum(3)) * std::tanh(cell[i]);
  }
}

inline void tanh_reference_step(std::size_t hidden, const double* x, const std::vector<double>& h,
                                double* state, double*) {
  for (std::size_t i = 0; i < hidden; ++i) state[i] = std::tanh(x[i] + h[i]);
}
inline void relu_reference_step(std::size_t hidden, const double* x, const std::vector<double>& h,
                                double* state, double*) {
  for (std::size_t i = 0; i < hidden; ++i) state[i] = std::fmax(x[i] + h[i], 0);
}

// All outputs except the notes; `cells`: 1 if there is a cell.
inline std::vector<ReferenceTensor> recurrent_reference(const Sample& sample,
                                                        const std::vector<ReferenceTensor>& inputs,
                                                        std::size_t gates, std::size_t cells,
                                                        bool reverse, RecurrentStep step) {
  const ReferenceTensor &x = inputs[0], &weight = inputs[1];
  const std::size_t hidden = weight.shape[1], count = sample.lengths.size();
  ReferenceTensor y{Shape{x.shape[0], hidden}, std::vector<double>(x.shape[0] * hidden)};
  ReferenceTensor state{Shape{count, hidden}, std::vector<double>(count * hidden)}, cell = state;
  if (inputs[3].defined) state.values = inputs[3].values;
  if (cells != 0 && inputs[4].defined) cell.values = inputs[4].values;
  std::size_t begin = 0;
  for (std::size_t s = 0; s < count; begin += sample.lengths[s++])
    for (std::size_t t = 0; t < sample.lengths[s]; ++t) {
      const std::size_t row = begin + (reverse ? sample.lengths[s] - 1 - t : t);
      std::vector<double> h(gates * hidden);
      for (std::size_t gate = 0; gate < h.size(); ++gate) {
        h[gate] = inputs[2].defined ? inputs[2].values[gate] : 0;
        for (std::size_t i = 0; i < hidden; ++i)
          h[gate] += weight.values[gate * hidden + i] * state.values[s * hidden + i];
      }
      double* const now = state.values.data() + s * hidden;
      step(hidden, x.values.data() + row * gates * hidden, h, now, cell.values.data() + s * hidden);
      std::copy_n(now, hidden, y.values.data() + row * hidden);
    }
  if (cells == 0) return {y, state};
  return {y, state, cell};
}

inline OperatorSamples recurrent_samples(
    std::size_t gates,
    std::vector<ReferenceTensor> (*reference)(const Sample&, const std::vector<ReferenceTensor>&)) {
  OperatorSamples result;
  result.reference = reference;
  const auto add = [&](std::size_t hidden, std::vector<std::size_t> lengths, bool bias, bool state,
                       bool reverse) {
    std::size_t rows = 0, longest = 0;
    for (const std::size_t length : lengths) {
      rows += length;
      longest = (std::max)(longest, length);
    }
    const Shape states{lengths.size(), hidden};
    // Each step adds the rounding errors of a product and of its gates, and passes on less than
    // twice the earlier error because the weights are small.
    const double error = 16 * static_cast<double>((longest + 1) * (hidden + 12)) * 0x1p-24;
    const double bound = 1 / std::sqrt(static_cast<double>(hidden));
    Sample sample{.name = std::to_string(rows) + " rows to " + std::to_string(hidden) +
                          (reverse ? ", reverse" : ""),
                  .inputs = {{.shape = Shape{rows, gates * hidden}},
                             {.shape = Shape{gates * hidden, hidden}, .low = -bound, .high = bound},
                             {.shape = Shape{gates * hidden}, .left_out = !bias},
                             {.shape = states, .left_out = !state}},
                  .attributes = RecurrentSetting{reverse},
                  .lengths = std::move(lengths),
                  .error = error,
                  .gradient_error = 4 * error};
    if (gates == 4) sample.inputs.push_back({.shape = states, .left_out = !state});
    result.samples.push_back(std::move(sample));
  };
  add(4, {3, 0, 1, 5}, true, false, false);
  add(5, {2, 6, 6}, true, true, false);
  add(17, {4, 1}, false, true, true);
  add(3, {0, 2, 1, 7, 2}, true, true, true);
  add(4, {0, 0}, true, true, false);
  return result;
}

inline OperatorSamples gru_samples() {
  return recurrent_samples(3, [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    return recurrent_reference(
        sample, inputs, 3, 0, sample.attributes.as<RecurrentSetting>().reverse, gru_reference_step);
  });
}

inline OperatorSamples lstm_samples() {
  return recurrent_samples(4, [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    return recurrent_reference(sample, inputs, 4, 1,
                               sample.attributes.as<RecurrentSetting>().reverse,
                               lstm_reference_step);
  });
}

inline OperatorSamples rnn_samples() {
  OperatorSamples result =
      recurrent_samples(1, [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
        const auto& setting = sample.attributes.as<RnnSetting>();
        return recurrent_reference(sample, inputs, 1, 0, setting.reverse,
                                   setting.relu ? relu_reference_step : tanh_reference_step);
      });
  const std::vector<Sample> both = result.samples;
  for (Sample& sample : result.samples)
    sample.attributes = RnnSetting{sample.attributes.as<RecurrentSetting>().reverse, false};
  // With biases and inputs so far from 0 that no step of a difference quotient crosses it.
  for (std::size_t i = 0; i < both.size(); i += 3) {
    Sample sample = both[i];
    sample.name += ", relu";
    sample.attributes = RnnSetting{sample.attributes.as<RecurrentSetting>().reverse, true};
    std::vector<double> far;
    for (std::size_t k = 0; k < sample.inputs[0].shape.elements(); ++k)
      far.push_back(k % 3 == 0 ? -3.0 : 0.5 + static_cast<double>(k % 5) * 0.25);
    sample.inputs[0].values = far;
    for (std::size_t k = 1; k < sample.inputs.size(); ++k) {
      sample.inputs[k].low = 0.03125;
      sample.inputs[k].high = 0.125;
    }
    result.samples.push_back(std::move(sample));
  }
  return result;
}

inline double scaled_frequency(const RotaryScaling& scaling, double own) {
  const auto factor = static_cast<double>(scaling.factor);
  if (scaling.kind == RotaryScaling::Kind::none) return own;
  if (scaling.kind == RotaryScaling::Kind::linear) return own / factor;
  const double wavelength = 2 * std::acos(-1.0) / own,
               low = static_cast<double>(scaling.low_frequency_factor),
               high = static_cast<double>(scaling.high_frequency_factor),
               positions = static_cast<double>(scaling.original_positions);
  if (wavelength < positions / high) return own;
  if (wavelength > positions / low) return own / factor;
  const double share = (positions / wavelength - low) / (high - low);
  return (1 - share) * own / factor + share * own;
}

inline std::vector<ReferenceTensor> rotary_reference(const Sample& sample,
                                                     const std::vector<ReferenceTensor>& inputs) {
  const auto& setting = sample.attributes.as<RotarySetting>();
  ReferenceTensor y{inputs[0]};
  const Shape& shape = y.shape;
  const std::size_t columns = shape.columns();
  const std::size_t turned = setting.columns == 0 ? columns : setting.columns,
                    width = turned / setting.heads, half = width / 2;
  const bool go_on = inputs.size() > 1 && inputs[1].defined;
  std::vector<std::size_t> positions;
  for (std::size_t sequence = 0; sequence < sample.lengths.size(); ++sequence)
    for (std::size_t i = 0; i < sample.lengths[sequence]; ++i)
      positions.push_back(i + (go_on ? static_cast<std::size_t>(inputs[1].values[sequence]) : 0));
  for (std::size_t row = 0; row < shape.rows(); ++row) {
    const std::size_t position = shape.rank() == 2 ? positions[row] : row % shape[shape.rank() - 2];
    for (std::size_t column = 0; column < turned; ++column) {
      if (column % width >= half) continue;
      const double own =
          1 / std::pow(static_cast<double>(setting.base),
                       2.0 * static_cast<double>(column % width) / static_cast<double>(width));
      const double angle = static_cast<double>(position + setting.first_position) *
                           scaled_frequency(setting.scaling, own);
      double &a = y.values[row * columns + column], &b = y.values[row * columns + column + half];
      const double before = a;
      a = before * std::cos(angle) - b * std::sin(angle);
      b = b * std::cos(angle) + before * std::sin(angle);
    }
  }
  return {y};
}

inline OperatorSamples rotary_samples() {
  OperatorSamples result;
  result.reference = &rotary_reference;
  const auto add = [&](const Shape& shape, const RotarySetting& setting,
                       std::vector<std::size_t> lengths) {
    result.samples.push_back(
        {.name = to_string(shape) + ", " + std::to_string(setting.heads) + " heads",
         .inputs = {{.shape = shape}},
         .attributes = setting,
         .lengths = std::move(lengths),
         .error = 8 * 0x1p-24,
         .gradient_error = 8 * 0x1p-24});
  };
  add({9, 12}, {.heads = 2}, {5, 0, 4});
  add({7, 38}, {.heads = 1, .base = 500}, {1, 6});
  add({5, 12}, {.heads = 2, .columns = 8, .first_position = 1000}, {5});
  add({2, 3, 8}, {.heads = 2}, {});
  add({0, 8}, {.heads = 2}, {0});
  add({6, 8}, {.heads = 2}, {3, 0, 3});
  result.samples.back().inputs.push_back(
      {.shape = Shape{3}, .dtype = DType::int64, .values = {7, 2, 1000}});
  result.samples.back().name += ", begins";
  add({9, 24},
      {.heads = 3,
       .columns = 18,
       .first_position = 100,
       .scaling = {.kind = RotaryScaling::Kind::linear, .factor = 4}},
      {5, 4});
  // Wavelengths of 6, 12, 23, 44, 83, 158, 300 and 570 positions: on both sides, and between.
  add({6, 32},
      {.heads = 2,
       .base = 170,
       .first_position = 500,
       .scaling = {.kind = RotaryScaling::Kind::llama3, .factor = 8, .original_positions = 200}},
      {6});
  return result;
}

inline OperatorSamples sequence_pool_samples() {
  OperatorSamples result;
  const auto add = [&](std::size_t columns, std::vector<std::size_t> lengths, bool largest) {
    std::size_t rows = 0;
    for (const std::size_t length : lengths) rows += length;
    // Values so far apart that no step of a difference quotient changes which is the largest.
    std::vector<double> values;
    for (std::size_t i = 0; i < rows * columns; ++i)
      values.push_back(static_cast<double>(i * 37 % 101) * 0.0625 - 3);
    result.samples.push_back(
        {.name = std::to_string(lengths.size()) + " sequences" + (largest ? ", the largest" : ""),
         .inputs = {{.shape = Shape{rows, columns}, .values = values}},
         .attributes = SequencePoolSetting{largest},
         .lengths = std::move(lengths),
         .error = largest ? 0 : 2 * 0x1p-24,
         .gradient_error = 2 * 0x1p-24});
  };
  for (const bool largest : {false, true}) {
    add(5, {1, 5, 3}, largest);
    add(3, {9}, largest);
  }
  result.reference = [](const Sample& sample, const std::vector<ReferenceTensor>& inputs) {
    const bool largest = sample.attributes.as<SequencePoolSetting>().largest;
    const std::size_t columns = inputs[0].shape[1];
    ReferenceTensor y{Shape{sample.lengths.size(), columns}, {}};
    std::size_t begin = 0;
    for (const std::size_t length : sample.lengths) {
      for (std::size_t c = 0; c < columns; ++c) {
        double sum = 0, most = inputs[0].values[begin * columns + c];
        for (std::size_t row = begin; row < begin + length; ++row) {
          sum += inputs[0].values[row * columns + c];
          most = std::fmax(most, inputs[0].values[row * columns + c]);
        }
        y.values.push_back(largest ? most : sum / static_cast<double>(length));
      }
      begin += length;
    }
    return std::vector<ReferenceTensor>{y};
  };
  return result;
}

}  // namespace SOMA_NAMESPACE::detail
