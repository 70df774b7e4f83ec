// A small model of images with batch norm, and images whose second channel is nearly constant:
// batch norm corrects its mean twice.
#pragma once

#include <soma/data/array_source.hpp>
#include <soma/nn.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace soma_test {

inline soma::nn::Sequential batch_norm_model(const soma::nn::Scope& root) {
  using namespace soma;
  nn::Sequential model;
  model.add("first", nn::BatchNorm2d(root / "first", 2))
      .add("conv",
           nn::Conv2d(root / "conv", 2, 4, 3, {.setting = {.pad_height = 1, .pad_width = 1}}))
      .add("norm", nn::BatchNorm2d(root / "norm", 4))
      .add("bend", [](Tape& tape, const Var& x) { return relu(tape, x); })
      .add("pool", nn::AdaptiveAveragePool2d(2, 2))
      .add("flat", nn::Flatten())
      .add("group", nn::GroupNorm(root / "group", 4, 16))
      .add("dense", nn::Linear(root / "dense", 16, 8))
      .add("norm1", nn::BatchNorm1d(root / "norm1", 8))
      .add("last", nn::Linear(root / "last", 8, 3));
  return model;
}

struct LabelledImages {
  explicit LabelledImages(soma::Context& context)
      : images(soma::nn::normal(context, soma::Shape{45, 2, 6, 5}, 1,
                                {.seed = 4, .stream = soma::stream_id("x", "test")})) {
    const std::span<float> pixels = images.mutable_span<float>();
    for (std::size_t i = 0; i < pixels.size(); ++i)
      if (i / 30 % 2 == 1) pixels[i] = pixels[i] > 1 ? 1234.5673f : 1234.567f;
    std::vector<std::int64_t> labels;
    for (std::size_t i = 0; i < 45; ++i) labels.push_back(static_cast<std::int64_t>(i * 7 % 3));
    classes = soma::Tensor::from(context, labels, soma::Shape{45});
  }
  soma::Tensor images, classes;
};

}  // namespace soma_test
