#pragma once
// Steps of layers over sequences: the gates of a GRU (arXiv 1406.1078, with the reset gate behind
// the product, as PyTorch and cuDNN have it) and of an LSTM (Neural Computation 9(8), 1997, with a
// forget gate), and rotary positions (arXiv 2104.09864). All of it is element by element in fp32,
// so bits depend on the arguments alone.

#include <soma/kernels/operand.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

// One row of a step of a GRU, H elements wide. Gates lie side by side: reset r, update z, new n.
//
//   r = sigmoid(x_r + h_r)    z = sigmoid(x_z + h_z)    n = tanh(x_n + r h_n)
//   state = n + z (state - n)
struct GruArgs {
  std::size_t hidden = 0;    // H
  const float* x = nullptr;  // 3 H: input gates W x + b
  const float* h = nullptr;  // 3 H: hidden gates W h + b
  float* state = nullptr;    // H: before and after the step
  float* y = nullptr;        // H: the state after it
  float* notes = nullptr;    // 5 H, for backward: r, z, n, h_n, the state before
};

// The same row in backward. With d the gradient of the state after the step, which is dstate + dy:
//
//   dn = d (1 - z) (1 - n^2)    dr = dn h_n r (1 - r)    dz = d (state before - n) z (1 - z)
//   dx = dr, dz, dn             dh = dr, dz, dn r        dstate = d z
struct GruBackwardArgs {
  std::size_t hidden = 0;
  const float* notes = nullptr;  // 5 H
  const float* dy = nullptr;     // H
  float* dstate = nullptr;       // H: in and out, without what passes through hidden gates
  float* dx = nullptr;           // 3 H
  float *dh = nullptr, *dh_too = nullptr;  // 3 H each, the same
};

// One row of a step of an LSTM. Gates: input i, forget f, cell g, output o.
//
//   i = sigmoid(x_i + h_i)    f = sigmoid(x_f + h_f)    g = tanh(x_g + h_g)
//   o = sigmoid(x_o + h_o)    cell = f cell + i g       state = o tanh(cell)
struct LstmArgs {
  std::size_t hidden = 0;
  const float *x = nullptr, *h = nullptr;   // 4 H each
  float *state = nullptr, *cell = nullptr;  // H each: before and after the step
  float* y = nullptr;                       // H: the state after it
  float* notes = nullptr;                   // 7 H: i, f, g, o, tanh(cell), cell and state before
};

// With d = dstate + dy and c = dcell + d o (1 - tanh(cell)^2):
//
//   di = c g i (1 - i)    df = c (cell before) f (1 - f)    dg = c i (1 - g^2)
//   do = d tanh(cell) o (1 - o)                             dcell = c f
struct LstmBackwardArgs {
  std::size_t hidden = 0;
  const float* notes = nullptr;                    // 7 H
  const float* dy = nullptr;                       // H
  const float* dstate = nullptr;                   // H
  float* dcell = nullptr;                          // H: in and out
  float *dgates = nullptr, *dgates_too = nullptr;  // 4 H each, the same: of x and of h
};

// Heads of a row are turned: with halves a and b of a head, and the angle's cosine and sine of each
// pair,
//   a' = a cos - b sin    b' = b cos + a sin
// or the inverse rotation. Columns after the heads are copied.
struct RotaryArgs {
  std::size_t rows = 0, columns = 0;
  std::size_t heads = 0, width = 0;  // heads x width columns are turned; the width is even
  bool back = false;                 // by the negative angle: the gradient
  // width / 2 each of a row; rows of x use those that `table_rows` names.
  const float *cosines = nullptr, *sines = nullptr;
  const std::size_t* table_rows = nullptr;  // [rows]
  MatrixOperand x{};
  MatrixTarget y{};
};

struct SequenceKernels {
  void (*gru)(const GruArgs&) noexcept;
  void (*gru_backward)(const GruBackwardArgs&) noexcept;
  void (*lstm)(const LstmArgs&) noexcept;
  void (*lstm_backward)(const LstmBackwardArgs&) noexcept;
  void (*rotary)(const RotaryArgs&) noexcept;
};

}  // namespace SOMA_NAMESPACE
