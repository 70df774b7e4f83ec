#pragma once
// ConvNet: a small image classifier: blocks of 3 x 3 convolution, ReLU and 2 x 2 max pooling, then
// two linear layers (after "Gradient-Based Learning Applied to Document Recognition", LeCun et al.
// 1998).

#include <soma/nn/layers.hpp>
#include <soma/nn/pieces.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace soma::models {

struct ConvNetConfig {
  std::size_t channels = 1, height = 28, width = 28, labels = 10;
  std::vector<std::size_t> blocks{16, 32};  // channels of each; each halves the image
  std::size_t hidden = 128;
};

class ConvNet {
 public:
  ConvNet() = default;
  // Error operator.value: the image is too small for this number of blocks.
  ConvNet(const nn::Scope& scope, const ConvNetConfig& config) {
    std::size_t channels = config.channels, height = config.height, width = config.width;
    for (std::size_t i = 0; i < config.blocks.size(); ++i) {
      if (height < 2 || width < 2)
        fail(error_id::operator_value, "ConvNet", "blocks", std::to_string(config.blocks.size()),
             "few enough that halving " + std::to_string(config.height) + " x " +
                 std::to_string(config.width) + " leaves something");
      convolutions.emplace_back(scope / "block" / std::to_string(i), channels, config.blocks[i],
                                std::size_t{3},
                                nn::Conv2dOptions{.setting = {.pad_height = 1, .pad_width = 1}});
      channels = config.blocks[i];
      height /= 2;
      width /= 2;
    }
    hidden = nn::Linear(scope / "hidden", channels * height * width, config.hidden);
    classifier = nn::Linear(scope / "classifier", config.hidden, config.labels, {.edge = true});
  }
  // Images [N, channels, height, width] to logits [N, labels].
  Var operator()(Tape& tape, Var x) const {
    for (std::size_t i = 0; i < convolutions.size() + 2; ++i) x = run_piece(i, tape, x);
    return x;
  }
  // The pieces: blocks, hidden layer, classifier.
  nn::Pieces pieces() const {
    nn::Pieces result;
    const std::size_t blocks = convolutions.size();
    for (std::size_t i = 0; i < blocks + 2; ++i) {
      const std::string name = i < blocks    ? "block." + std::to_string(i)
                               : i == blocks ? "hidden"
                                             : "classifier";
      Parameters own;
      nn::Collector collector(own);
      if (i < blocks)
        collector.part(name, convolutions[i]);
      else
        collector.part(name, i == blocks ? hidden : classifier);
      result.push_back(nn::Piece(name, std::move(own), &run_of, this, i));
    }
    return result;
  }
  void collect(nn::Collector& collector) const {
    for (std::size_t i = 0; i < convolutions.size(); ++i)
      collector.part("block." + std::to_string(i), convolutions[i]);
    collector.part("hidden", hidden);
    collector.part("classifier", classifier);
  }

  std::vector<nn::Conv2d> convolutions;
  nn::Linear hidden, classifier;

 private:
  static Var run_of(const void* model, std::size_t i, Tape& tape, const Var& x,
                    const data::Batch& batch) {
    const auto* own = static_cast<const ConvNet*>(model);
    return own->run_piece(i, tape, i == 0 ? tape.constant(batch.inputs) : x);
  }
  Var run_piece(std::size_t i, Tape& tape, const Var& x) const {
    if (i < convolutions.size()) return max_pool2d(tape, relu(tape, convolutions[i](tape, x)));
    if (i > convolutions.size()) return classifier(tape, x);
    const Var rows = reshape(tape, x, Shape{x.shape()[0], hidden.weight.shape()[1]});
    return hidden(tape, rows, {.activation = Activation::relu});
  }
};

}  // namespace soma::models
