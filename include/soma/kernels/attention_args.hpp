#pragma once
// Scaled dot-product attention of one sequence and one head (arXiv 1706.03762), by blocks of keys
// with an online softmax (arXiv 2205.14135), so that no T x T matrix is ever stored; backward
// recomputes the probabilities from the saved log-sum-exp of each row.
//
//   s = scale q k^T     p = softmax(s), row by row     out = dropout(p) v
//
// Queries T x D, keys and values S x D. The key block is a constant, products add along their inner
// index in order, row sums use 16 logical lanes: the bits depend on the arguments alone.

#include <soma/kernels/operand.hpp>

#include <cstddef>
#include <cstdint>

namespace soma {

struct AttentionArgs {
  std::size_t queries = 0, keys = 0;  // T, S: 0 to 65536
  std::size_t width = 0;              // D
  MatrixOperand q{}, k{}, v{};        // T x D, S x D, S x D
  float scale = 1;
  // The word of (query, key) is at dropout.draw.index + (query << 16) + key.
  DropoutArgs dropout{};
  MatrixTarget out{};            // T x D; no keys: zeros
  float* log_sum_exp = nullptr;  // T; forward writes it, backward reads it
  // backward only
  MatrixOperand forward_out{};     // T x D, what forward wrote
  MatrixOperand dout{};            // T x D
  MatrixTarget dq{}, dk{}, dv{};   // T x D, S x D, S x D
  std::byte* workspace = nullptr;  // AttentionKernels::workspace_bytes(...)
};

struct AttentionKernels {
  void (*forward)(const AttentionArgs&) noexcept;
  void (*backward)(const AttentionArgs&) noexcept;
  std::size_t (*workspace_bytes)(std::size_t queries, std::size_t keys, std::size_t width) noexcept;
};

}  // namespace soma
