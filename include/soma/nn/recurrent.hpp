#pragma once
// Gru and Lstm: recurrent layers over ragged batches, with one or more layers and one or both
// directions. Parameters have the names and the order of gates of torch.nn.GRU and torch.nn.LSTM,
// and results equal those of PyTorch's packed sequences.
//
//   const nn::Gru gru(scope / "gru", 256, 128, {.layers = 2, .bidirectional = true});
//   const nn::RecurrentResult result = gru(tape, x);
//   result.rows;         // [rows, 2 x 128], with the sequences of x
//   result.last(tape);   // [sequences, 2 x 128]: of the last layer, what a classifier takes

#include <soma/autograd/sequence_functions.hpp>
#include <soma/nn/layers.hpp>
#include <soma/nn/sequence_rows.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::nn {

struct RecurrentOptions {
  std::size_t layers = 1;
  bool bidirectional = false;  // the second direction's columns stand behind the first one's
  float dropout = 0;           // on the rows between layers
};
void fields(FieldVisitor& visitor, RecurrentOptions& options);

struct RecurrentResult {
  Var rows;  // [rows, H], or [rows, 2 H] of both directions
  // [sequences, H] each: for every layer, first forwards, then backwards. Only an Lstm has cells.
  std::vector<Var> states, cells;

  // The states of the last layer, both directions side by side.
  Var last(Tape& tape) const;
  bool both = false;
};

namespace detail {

// The end of a parameter's name: "_" and the layer; nothing of a cell.
std::string behind(const std::string& layer);

// The weights of one layer and direction; `layer` is empty for a cell.
struct RecurrentWeights {
  RecurrentWeights() = default;
  RecurrentWeights(const Scope& scope, std::size_t gates, std::size_t in, std::size_t hidden,
                   const std::string& layer);
  void collect(Collector& collector) const;

  Var input_weight, hidden_weight, input_bias, hidden_bias;
  ProductSite site;  // for the input product
  std::string suffix;
};

}  // namespace detail

// The common base of Gru, Lstm and Rnn. Errors of the constructors: operator.value (a width or
// layers of 0), random.probability (dropout).
class RecurrentLayers {
 public:
  void collect(Collector& collector) const;

  std::size_t hidden = 0;
  bool both = false;
  // First layer forwards, first layer backwards, second layer forwards, ...
  std::vector<detail::RecurrentWeights> layers;
  std::vector<Dropout> dropouts;  // behind each layer but the last

 protected:
  RecurrentLayers() = default;
  RecurrentLayers(const Scope& scope, std::size_t gates, std::size_t in, std::size_t width,
                  const RecurrentOptions& options);

  // step(number, layer, rows, setting) runs a layer and direction, notes its last states and
  // returns its rows.
  template <class Step>
  RecurrentResult run(Tape& tape, const Var& x, const Step& step) const {
    const auto within = tape.within(path_.view());
    const SequenceRows batch(tape, x);
    RecurrentResult result;
    result.both = both;
    Var rows = batch.rows();
    const std::size_t directions = both ? 2 : 1;
    for (std::size_t i = 0; i < layers.size(); i += directions) {
      if (i != 0) rows = dropouts[i / directions - 1](tape, rows);
      const Var forwards = step(i, result, rows, RecurrentSetting{});
      rows =
          both ? concatenate(tape, {forwards, step(i + 1, result, rows, RecurrentSetting{true})}, 1)
               : forwards;
    }
    result.rows = batch.back(tape, rows);
    return result;
  }
  Var input_gates(Tape& tape, std::size_t layer, const Var& rows) const;
  // The initial state of a layer and direction, if states are given. Error operator.inputs.
  Var first_of(std::span<const Var> states, std::size_t layer) const;

 private:
  LayerPath path_;
};

// arXiv 1406.1078. Takes rows [rows, in] that form sequences, or a batch [B, T, in]. Errors as of
// the operator gru.
class Gru : public RecurrentLayers {
 public:
  Gru() = default;
  Gru(const Scope& scope, std::size_t in, std::size_t width, const RecurrentOptions& options = {})
      : RecurrentLayers(scope, 3, in, width, options) {}

  // `states` [sequences, H]: the initial states of each layer and direction; empty: zeros.
  RecurrentResult operator()(Tape& tape, const Var& x, std::span<const Var> states = {}) const;
};

// Neural Computation 9(8), 1997. Rows as for Gru. Errors as of the operator lstm.
class Lstm : public RecurrentLayers {
 public:
  Lstm() = default;
  Lstm(const Scope& scope, std::size_t in, std::size_t width, const RecurrentOptions& options = {})
      : RecurrentLayers(scope, 4, in, width, options) {}

  RecurrentResult operator()(Tape& tape, const Var& x, std::span<const Var> states = {},
                             std::span<const Var> cells = {}) const;
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/recurrent.ipp>
#endif
