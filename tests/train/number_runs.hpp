// A small net and rows of numbers that it can fit: for tests whose labels are numbers.
#pragma once

#include <soma/data/array_source.hpp>
#include <soma/nn/number_tasks.hpp>
#include <soma/soma.hpp>
#include <soma/train/trainer.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace soma_test {

// A layer, tanh, a layer.
struct SmallNet {
  explicit SmallNet(const soma::nn::Scope& scope, std::size_t outputs = 1)
      : hidden(scope / "hidden", 4, 16), out(scope / "out", 16, outputs) {}
  soma::Var operator()(soma::Tape& tape, const soma::Var& x) const {
    return out(tape, hidden(tape, x, {.activation = soma::Activation::tanh}));
  }
  void collect(soma::nn::Collector& collector) const {
    collector.part("hidden", hidden);
    collector.part("out", out);
  }
  soma::nn::Linear hidden, out;
};

struct NumberRows {
  std::vector<float> features{};  // [rows, 4]
  std::vector<float> targets{};   // [rows]
};

inline NumberRows number_rows(std::size_t count, std::uint64_t seed = 1) {
  NumberRows rows;
  soma::DrawSequence draws({.seed = seed, .stream = 9});
  for (std::size_t i = 0; i < count; ++i) {
    float x[4];
    for (float& value : x) {
      value = static_cast<float>(draws.below(2001)) / 1000 - 1;
      rows.features.push_back(value);
    }
    rows.targets.push_back(x[0] * x[1] + 0.5f * x[2]);
  }
  return rows;
}

inline soma::data::ArraySource number_source(soma::Context& context, const NumberRows& rows,
                                             bool shuffle = true) {
  const std::size_t count = rows.targets.size();
  return soma::data::ArraySource(
      context,
      soma::Tensor::from(context, std::span<const float>(rows.features), soma::Shape{count, 4}),
      soma::Tensor::from(context, std::span<const float>(rows.targets), soma::Shape{count}),
      {.batch_sequences = 32, .shuffle = shuffle, .seed = 2});
}

}  // namespace soma_test
