#pragma once
// Rnn, a recurrent layer without gates, and cells: one step of a recurrent layer for each row of a
// batch. Parameters have the names and the order of gates of PyTorch's modules.
//
//   const nn::LstmCell cell(scope / "cell", 256, 128);
//   nn::CellState now;
//   for (const Var& x : steps)       // [B, 256] each
//     now = cell(tape, x, now);      // now.state, now.cell [B, 128]

#include <soma/nn/recurrent.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace SOMA_NAMESPACE::nn {

// tanh(x W_ih^T + b_ih + state W_hh^T + b_hh), or its part above 0 (`relu`). Rows and results are
// as for Gru. Errors as of the operator rnn.
class Rnn : public RecurrentLayers {
 public:
  Rnn() = default;
  Rnn(const Scope& scope, std::size_t in, std::size_t width, const RecurrentOptions& options = {},
      bool above_zero = false)
      : RecurrentLayers(scope, 1, in, width, options), relu(above_zero) {}

  RecurrentResult operator()(Tape& tape, const Var& x, std::span<const Var> states = {}) const;
  void describe(Record& record) const;

  bool relu = false;
};

// A cell passes this on; without values: zeros.
struct CellState {
  Var state, cell{};  // [B, H] each; only an LstmCell has `cell`
};

// The common base of cells. Error operator.value: a width of 0.
class RecurrentCell {
 public:
  void collect(Collector& collector) const;

  detail::RecurrentWeights weights;  // weight_ih, weight_hh, bias_ih, bias_hh

 protected:
  RecurrentCell() = default;
  RecurrentCell(const Scope& scope, std::size_t gates, std::size_t in, std::size_t width);
  // Products of x [B, in], as B sequences of one row. Errors tensor.rank, ragged.ordinals.
  Var gates_of(Tape& tape, const Var& x) const;
  // [B, H] with the batch of x.
  static Var state_of(Tape& tape, const Var& last, const Var& x);

 private:
  LayerPath path_{};
};

class RnnCell : public RecurrentCell {
 public:
  RnnCell() = default;
  RnnCell(const Scope& scope, std::size_t in, std::size_t width, bool above_zero = false)
      : RecurrentCell(scope, 1, in, width), relu(above_zero) {}
  CellState operator()(Tape& tape, const Var& x, const CellState& before = {}) const;
  void describe(Record& record) const;

  bool relu = false;
};

class GruCell : public RecurrentCell {
 public:
  GruCell() = default;
  GruCell(const Scope& scope, std::size_t in, std::size_t width)
      : RecurrentCell(scope, 3, in, width) {}
  CellState operator()(Tape& tape, const Var& x, const CellState& before = {}) const;
};

class LstmCell : public RecurrentCell {
 public:
  LstmCell() = default;
  LstmCell(const Scope& scope, std::size_t in, std::size_t width)
      : RecurrentCell(scope, 4, in, width) {}
  CellState operator()(Tape& tape, const Var& x, const CellState& before = {}) const;
};

}  // namespace SOMA_NAMESPACE::nn

#ifndef SOMA_DISPATCH
#include <soma/nn/impl/cells.ipp>
#endif
