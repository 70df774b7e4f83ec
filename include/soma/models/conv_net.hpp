#pragma once
// ConvNet: a small image classifier: blocks of 3 x 3 convolution, ReLU and 2 x 2 max pooling, then
// two linear layers (after "Gradient-Based Learning Applied to Document Recognition", LeCun et al.
// 1998). The first convolution and the classifier are edges (nn/product_site.hpp).

#include <soma/nn/layers.hpp>
#include <soma/nn/pieces.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

struct ConvNetConfig {
  std::size_t channels = 1, height = 28, width = 28, labels = 10;
  std::vector<std::size_t> blocks{16, 32};  // channels of each; each halves the image
  std::size_t hidden = 128;
};

class ConvNet {
 public:
  ConvNet() = default;
  // Error operator.value: the image is too small for this number of blocks.
  ConvNet(const nn::Scope& scope, const ConvNetConfig& config);
  // Images [N, channels, height, width] to logits [N, labels].
  Var operator()(Tape& tape, Var x) const;
  // The pieces: blocks, hidden layer, classifier.
  nn::Pieces pieces() const;
  void collect(nn::Collector& collector) const;

  std::vector<nn::Conv2d> convolutions;
  nn::Linear hidden, classifier;

 private:
  static Var run_of(const void* model, std::size_t i, Tape& tape, const Var& x,
                    const data::Batch& batch);
  Var run_piece(std::size_t i, Tape& tape, const Var& x) const;
};

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/conv_net.ipp>
#endif
