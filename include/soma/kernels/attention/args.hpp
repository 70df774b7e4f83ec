#pragma once
// Scaled dot-product attention of one sequence and one head (arXiv 1706.03762), by blocks of keys
// with an online softmax (arXiv 2205.14135), so that no T x T matrix is ever stored; backward
// recomputes the probabilities from the saved log-sum-exp of each row.
//
//   s = scale q k^T     p = softmax(s), row by row     out = dropout(p) v
//
// Queries T x D, keys and values S x D. A query may see some of the keys only (`causal`, `mask`):
// the others count as s = -infinity. Products of a panel of queries (up to 32 of them) with a block
// of keys are left out where no query of the panel sees a key at or behind that place, so causal
// attention takes about half of the work. A hidden key inside a panel gets the factor zero, so an
// infinity or NaN in its values or gradients may still show in the result.
//
// The key block is a constant, products add along their inner index in order, row sums use 16
// logical lanes: the bits depend on the arguments alone. With bf16 instructions
// (AttentionArgs::bf16_products) they also depend on the CPU, as in matrix products.

#include <soma/kernels/operand.hpp>
#include <soma/runtime/math.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

// Fewer keys are not worth their squares of 32 x 32: 40 and 48 take 0.9 to 1.2 times as long by
// tiles as by multiply-adds, 64 0.6 to 0.9.
inline constexpr std::size_t tiled_keys = 64;

struct AttentionArgs {
  std::size_t queries = 0, keys = 0;  // T, S: 0 to 65536
  std::size_t width = 0;              // D
  MatrixOperand q{}, k{}, v{};        // T x D, S x D, S x D
  float scale = 1;
  // The word of (query, key) is at dropout.draw.index + (query << 16) + key.
  DropoutArgs dropout{};
  bool causal = false;      // query i sees keys 0 to earlier + i; S = earlier + T
  std::size_t earlier = 0;  // keys before the first query, where attention is causal
  // T x S bytes, row-major: query i sees key j where byte (i, j) is not 0. nullptr: all keys. With
  // `causal`, both have to agree. Every query sees a key.
  const std::uint8_t* mask = nullptr;
  MatrixTarget out{};            // T x D; no keys: zeros
  float* log_sum_exp = nullptr;  // T; forward writes it, backward reads it
  // backward only
  MatrixOperand forward_out{};    // T x D, what forward wrote
  MatrixOperand dout{};           // T x D
  MatrixTarget dq{}, dk{}, dv{};  // T x D, S x D, S x D
  // tiles, for tiled_keys or more: where stored numbers of all operands are exact in bf16
  // (gemm/args.hpp) and unscaled, 32 consecutive steps join a product's sums at a time;
  // probabilities and their gradients are split into three bf16 numbers without loss. Numbers below
  // 2^-126 count as zero, and an infinity may come out as NaN. Only on CPUs with tiles.
  // dot_instruction: where all operands are unscaled bf16, adjacent in a row, and the width is
  // even, two products at a time join a sum, and probabilities and their gradients are rounded to
  // bf16 first. That adds an error of at most 2^-8 sum |p v| to `out`; attention/dots-inl.hpp
  // derives the bounds. Numbers below 2^-126 count as zero. Only for a target and a CPU with the
  // instruction.
  Bf16Products bf16_products = Bf16Products::widened;
  std::byte* workspace = nullptr;  // AttentionKernels::workspace_bytes()
};

struct AttentionKernels {
  void (*forward)(const AttentionArgs&) noexcept;
  void (*backward)(const AttentionArgs&) noexcept;
  // For any operands with queries, keys and width, in the way that the args say; never decreases
  // with any of these three.
  std::size_t (*workspace_bytes)(const AttentionArgs&) noexcept;
};

}  // namespace SOMA_NAMESPACE
