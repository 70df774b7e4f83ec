#pragma once
// The functions of mlp.hpp.

#include <soma/models/mlp.hpp>

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

SOMA_INLINE Mlp::Mlp(const nn::Scope& scope, std::span<const std::size_t> sizes, Activation between)
    : activation(between) {
  if (sizes.size() < 2)
    fail(error_id::operator_value, "Mlp", "sizes", std::to_string(sizes.size()) + " numbers",
         "at least inputs and outputs");
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
    layers.emplace_back(scope / "layer" / std::to_string(i), sizes[i], sizes[i + 1],
                        nn::LinearOptions{.edge = i == 0 || i + 2 == sizes.size()});
}

SOMA_INLINE Var Mlp::operator()(Tape& tape, Var x) const {
  for (std::size_t i = 0; i < layers.size(); ++i) x = run_piece(i, tape, x);
  return x;
}

SOMA_INLINE nn::Pieces Mlp::pieces() const {
  nn::Pieces result;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string name = "layer." + std::to_string(i);
    Parameters own;
    nn::Collector(own).part(name, layers[i]);
    result.push_back(nn::Piece(name, std::move(own), &run_of, this, i));
  }
  return result;
}

SOMA_INLINE void Mlp::collect(nn::Collector& collector) const {
  for (std::size_t i = 0; i < layers.size(); ++i)
    collector.part("layer." + std::to_string(i), layers[i]);
}

SOMA_INLINE void Mlp::describe(Record& identity) const {
  identity.set("activation", static_cast<std::uint64_t>(activation));
}

SOMA_INLINE Var Mlp::run_of(const void* model, std::size_t i, Tape& tape, const Var& x,
                            const data::Batch& batch) {
  const auto* own = static_cast<const Mlp*>(model);
  return own->run_piece(i, tape, i == 0 ? tape.constant(batch.inputs) : x);
}

SOMA_INLINE Var Mlp::run_piece(std::size_t i, Tape& tape, const Var& x) const {
  return layers[i](tape, x, {.activation = i + 1 < layers.size() ? activation : Activation::none});
}

}  // namespace SOMA_NAMESPACE::models
