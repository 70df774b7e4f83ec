#pragma once
// The functions of conv_net.hpp.

#include <soma/models/conv_net.hpp>

#include <soma/nn/layers.hpp>
#include <soma/nn/pieces.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

SOMA_INLINE ConvNet::ConvNet(const nn::Scope& scope, const ConvNetConfig& config) {
  std::size_t channels = config.channels, height = config.height, width = config.width;
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    if (height < 2 || width < 2)
      fail(error_id::operator_value, "ConvNet", "blocks", std::to_string(config.blocks.size()),
           "few enough that halving " + std::to_string(config.height) + " x " +
               std::to_string(config.width) + " leaves something");
    convolutions.emplace_back(
        scope / "block" / std::to_string(i), channels, config.blocks[i], std::size_t{3},
        nn::Conv2dOptions{.setting = {.pad_height = 1, .pad_width = 1}, .edge = i == 0});
    channels = config.blocks[i];
    height /= 2;
    width /= 2;
  }
  hidden = nn::Linear(scope / "hidden", channels * height * width, config.hidden);
  classifier = nn::Linear(scope / "classifier", config.hidden, config.labels, {.edge = true});
}

SOMA_INLINE Var ConvNet::operator()(Tape& tape, Var x) const {
  for (std::size_t i = 0; i < convolutions.size() + 2; ++i) x = run_piece(i, tape, x);
  return x;
}

SOMA_INLINE nn::Pieces ConvNet::pieces() const {
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

SOMA_INLINE void ConvNet::collect(nn::Collector& collector) const {
  for (std::size_t i = 0; i < convolutions.size(); ++i)
    collector.part("block." + std::to_string(i), convolutions[i]);
  collector.part("hidden", hidden);
  collector.part("classifier", classifier);
}

SOMA_INLINE Var ConvNet::run_of(const void* model, std::size_t i, Tape& tape, const Var& x,
                                const data::Batch& batch) {
  const auto* own = static_cast<const ConvNet*>(model);
  return own->run_piece(i, tape, i == 0 ? tape.constant(batch.inputs) : x);
}

SOMA_INLINE Var ConvNet::run_piece(std::size_t i, Tape& tape, const Var& x) const {
  if (i < convolutions.size()) return max_pool2d(tape, relu(tape, convolutions[i](tape, x)));
  if (i > convolutions.size()) return classifier(tape, x);
  const Var rows = reshape(tape, x, Shape{x.shape()[0], hidden.weight.shape()[1]});
  return hidden(tape, rows, {.activation = Activation::relu});
}

}  // namespace SOMA_NAMESPACE::models
