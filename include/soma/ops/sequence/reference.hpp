#pragma once
// References of recurrent layers in double, their samples, and the gradients that they share.

#include <soma/ops/product/linear.hpp>
#include <soma/ops/product/matmul.hpp>
#include <soma/ops/samples.hpp>
#include <soma/ops/sequence/settings.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

// The gradients that follow from those of x and of the hidden gates: of x, weight and bias. The
// states before each row are in the notes from column `before` H on.
inline void recurrent_gradients(const GradientCall& call, const Tensor& dx, const Tensor& dh,
                                const Tensor& notes, std::size_t before) {
  const std::size_t hidden = call.inputs[1].size(1);
  if (call.wanted[0]) call.input_gradients[0].values = dx;
  if (call.wanted[1])
    call.input_gradients[1].values =
        run(call.context, ops::matmul, MatmulSetting{.transpose_a = true, .over_rows = true},
            {dh, notes.slice(1, before * hidden, (before + 1) * hidden)}, call.sequences)[0];
  if (is_wanted(call, 2))
    call.input_gradients[2].values =
        sum_to(call.context, dh, call.inputs[2].shape(), call.sequences);
}

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

// All outputs except the notes; `cells`: 1 if there is a cell.
inline std::vector<ReferenceTensor> recurrent_reference(const Sample& sample,
                                                        const std::vector<ReferenceTensor>& inputs,
                                                        std::size_t gates, std::size_t cells,
                                                        RecurrentStep step) {
  const ReferenceTensor &x = inputs[0], &weight = inputs[1];
  const std::size_t hidden = weight.shape[1], count = sample.lengths.size();
  ReferenceTensor y{Shape{x.shape[0], hidden}, std::vector<double>(x.shape[0] * hidden)};
  ReferenceTensor state{Shape{count, hidden}, std::vector<double>(count * hidden)}, cell = state;
  if (inputs[3].defined) state.values = inputs[3].values;
  if (cells != 0 && inputs[4].defined) cell.values = inputs[4].values;
  std::size_t begin = 0;
  for (std::size_t s = 0; s < count; begin += sample.lengths[s++])
    for (std::size_t t = 0; t < sample.lengths[s]; ++t) {
      const bool reverse = sample.attributes.as<RecurrentSetting>().reverse;
      const std::size_t row = begin + (reverse ? sample.lengths[s] - 1 - t : t);
      std::vector<double> h(gates * hidden);
      for (std::size_t gate = 0; gate < h.size(); ++gate) {
        h[gate] = inputs[2].defined ? inputs[2].values[gate] : 0;
        for (std::size_t i = 0; i < hidden; ++i)
          h[gate] += weight.values[gate * hidden + i] * state.values[s * hidden + i];
      }
      step(hidden, &x.values[row * gates * hidden], h, &state.values[s * hidden],
           &cell.values[s * hidden]);
      std::copy_n(&state.values[s * hidden], hidden, &y.values[row * hidden]);
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

}  // namespace SOMA_NAMESPACE::detail
