#pragma once
// Mlp: linear layers with an activation between them.

#include <soma/base/record.hpp>
#include <soma/nn/layers.hpp>
#include <soma/nn/pieces.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::models {

class Mlp {
 public:
  Mlp() = default;
  // sizes: inputs, widths of the hidden layers, outputs; at least two. Error operator.value.
  Mlp(const nn::Scope& scope, std::span<const std::size_t> sizes,
      Activation between = Activation::relu);
  // [..., inputs] to [..., outputs].
  Var operator()(Tape& tape, Var x) const;
  // The pieces: one for each layer.
  nn::Pieces pieces() const;
  void collect(nn::Collector& collector) const;
  // Records the settings that change the results but no shape.
  void describe(Record& identity) const;

  std::vector<nn::Linear> layers;
  Activation activation = Activation::relu;

 private:
  static Var run_of(const void* model, std::size_t i, Tape& tape, const Var& x,
                    const data::Batch& batch);
  Var run_piece(std::size_t i, Tape& tape, const Var& x) const;
};

}  // namespace SOMA_NAMESPACE::models

#ifndef SOMA_DISPATCH
#include <soma/models/impl/mlp.ipp>
#endif
