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

namespace soma::models {

class Mlp {
 public:
  Mlp() = default;
  // sizes: inputs, widths of the hidden layers, outputs; at least two. Error operator.value.
  Mlp(const nn::Scope& scope, std::span<const std::size_t> sizes,
      Activation between = Activation::relu)
      : activation(between) {
    if (sizes.size() < 2)
      fail(error_id::operator_value, "Mlp", "sizes", std::to_string(sizes.size()) + " numbers",
           "at least inputs and outputs");
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
      layers.emplace_back(scope / "layer" / std::to_string(i), sizes[i], sizes[i + 1],
                          nn::LinearOptions{.edge = i == 0 || i + 2 == sizes.size()});
  }
  // [..., inputs] to [..., outputs].
  Var operator()(Tape& tape, Var x) const {
    for (std::size_t i = 0; i < layers.size(); ++i) x = run_piece(i, tape, x);
    return x;
  }
  // The pieces: one for each layer.
  nn::Pieces pieces() const {
    nn::Pieces result;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const std::string name = "layer." + std::to_string(i);
      Parameters own;
      nn::Collector(own).part(name, layers[i]);
      result.push_back(nn::Piece(name, std::move(own), &run_of, this, i));
    }
    return result;
  }
  void collect(nn::Collector& collector) const {
    for (std::size_t i = 0; i < layers.size(); ++i)
      collector.part("layer." + std::to_string(i), layers[i]);
  }
  // Records the settings that change the results but no shape.
  void describe(Record& identity) const {
    identity.set("activation", static_cast<std::uint64_t>(activation));
  }

  std::vector<nn::Linear> layers;
  Activation activation = Activation::relu;

 private:
  static Var run_of(const void* model, std::size_t i, Tape& tape, const Var& x,
                    const data::Batch& batch) {
    const auto* own = static_cast<const Mlp*>(model);
    return own->run_piece(i, tape, i == 0 ? tape.constant(batch.inputs) : x);
  }
  Var run_piece(std::size_t i, Tape& tape, const Var& x) const {
    return layers[i](tape, x,
                     {.activation = i + 1 < layers.size() ? activation : Activation::none});
  }
};

}  // namespace soma::models
