#pragma once
// Steps of layers over sequences: the gates of a GRU (arXiv 1406.1078, with the reset gate behind
// the product, as PyTorch and cuDNN have it) and of an LSTM (Neural Computation 9(8), 1997, with a
// forget gate), a layer without gates, rotary positions (arXiv 2104.09864), and connectionist
// temporal classification. All but the last is element by element in fp32, so bits depend on the
// arguments alone.

#include <soma/kernels/operand.hpp>

#include <cstddef>
#include <cstdint>

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

// One row of a step of a layer without gates: state = tanh(x + h), or the part of x + h above 0.
struct RnnArgs {
  std::size_t hidden = 0;
  bool relu = false;
  const float *x = nullptr, *h = nullptr;  // H each
  float* state = nullptr;                  // H: before and after the step
  float* y = nullptr;                      // H: the state after it
  float* notes = nullptr;                  // 2 H: the state after, the state before
};

// With d = dstate + dy: dx = d (1 - after^2), or d where after is above 0.
struct RnnBackwardArgs {
  std::size_t hidden = 0;
  bool relu = false;
  const float* notes = nullptr;  // 2 H
  const float* dy = nullptr;     // H
  const float* dstate = nullptr;
  float *dx = nullptr, *dx_too = nullptr;  // H each, the same
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

// Connectionist temporal classification (Graves et al. 2006) of one sequence: -log of the sum, over
// all ways to spread the labels over the rows, with blanks between them where two are equal, of the
// product of the rows' probabilities. In the log domain, fp32; each row is taken relative to the
// largest sum before it, so errors do not grow with the length: 2^-20 of a row's magnitudes for
// each row. The relative sums are added in double.
struct CtcArgs {
  std::size_t rows = 0, classes = 0, count = 0;  // T, C, labels
  std::size_t blank = 0;
  const float* x = nullptr;              // T x C log probabilities
  const std::int64_t* labels = nullptr;  // each below C, none the blank
  double* loss = nullptr;                // infinite: more labels and blanks than rows
  // nullptr, or T x C: minus the probability that a row has the class, given the labels; zeros
  // where the loss is not finite.
  float* gradient = nullptr;
  float* workspace = nullptr;  // ctc_workspace() floats
};

// The floats of a run of states with some -infinity on both sides.
constexpr std::size_t ctc_run(std::size_t labels) { return (labels + 16) / 16 * 16 + 32; }
// Runs of blanks and of labels: of every row, or of two; two rows of the way back; four runs.
constexpr std::size_t ctc_workspace(std::size_t rows, std::size_t labels, bool gradient) {
  return (2 * ((gradient ? rows : 0) + 4) + 4) * ctc_run(labels);
}

struct SequenceKernels {
  void (*gru)(const GruArgs&) noexcept;
  void (*gru_backward)(const GruBackwardArgs&) noexcept;
  void (*lstm)(const LstmArgs&) noexcept;
  void (*lstm_backward)(const LstmBackwardArgs&) noexcept;
  void (*rotary)(const RotaryArgs&) noexcept;
  void (*rnn)(const RnnArgs&) noexcept;
  void (*rnn_backward)(const RnnBackwardArgs&) noexcept;
  void (*ctc)(const CtcArgs&) noexcept;
};

}  // namespace SOMA_NAMESPACE
