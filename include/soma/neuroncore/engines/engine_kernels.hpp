#pragma once
// EngineKernels: the inner loops of the engines, compiled for an instruction set, behind plain
// functions (engines/engine-inl.hpp). They share only the vector maths and conversions of simd/
// with kernels/, so that programs and host kernels check each other.

#include <soma/numeric/draw.hpp>
#include <soma/simd/codec_params.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::neuroncore {

// The arithmetic operators of the Vector engine, on fp32. Comparisons and logical operators give 1
// or 0.
enum class Alu : std::uint8_t {
  none,
  add,
  subtract,
  multiply,
  maximum,
  minimum,
  equal,
  not_equal,
  greater_equal,
  greater,
  less_equal,
  less,
  logical_and,
  logical_or,
  logical_xor,
  absolute,     // takes one operand, the data
  logical_not,  // the same
  power,        // GpSimd only
  rsqrt,        // GpSimd only
  // on the bits of integers
  bitwise_and,
  bitwise_or,
  bitwise_xor,
  invert,
  left_shift,
  right_shift,
};

// The functions of the Scalar engine.
enum class Function : std::uint8_t {
  copy,
  square,
  relu,
  sign,
  absolute,
  sigmoid,
  tanh,
  softplus,
  mish,
  silu,
  silu_dx,
  gelu,
  gelu_dx,
  gelu_apprx_tanh,
  gelu_apprx_sigmoid,
  gelu_apprx_sigmoid_dx,
  erf,
  erf_dx,
  exp,
  log,
  sin,
  arctan,
  sqrt,
  rsqrt,
  reciprocal,
};

// sums[m][n] = sum over k of a[k][m] * b[k][n], products added in ascending order, one fused
// multiply-add at a time, from zero. Rows of each `stride` floats apart; those of b and sums are
// aligned to 64 bytes and may be read and written up to a multiple of 16.
struct MultiplyArgs {
  std::size_t m = 0, n = 0, k = 0;
  const float *a = nullptr, *b = nullptr;
  float* sums = nullptr;
  std::size_t a_stride = 0, b_stride = 0, sums_stride = 0;
};

struct EngineKernels {
  // Stored codes, side by side, to floats and back. Buffers are no larger than `count`.
  void (*decode)(const CodecParams&, const std::byte* from, std::size_t count, float* to) noexcept;
  void (*encode)(const CodecParams&, const float* from, std::size_t count, std::byte* to,
                 const Draw&) noexcept;
  // out = a op b, each operator rounded once; one of the arithmetic operators.
  void (*alu)(Alu, const float* a, const float* b, float* out, std::size_t count) noexcept;
  // out = a op b; if `reverse`, b op a.
  void (*alu_scalar)(Alu, const float* a, float b, bool reverse, float* out,
                     std::size_t count) noexcept;
  void (*activate)(Function, const float* x, float* out, std::size_t count) noexcept;
  // add, multiply, maximum or minimum of all elements, in 16 logical lanes: lane i takes elements
  // i, i + 16 ... in order, then lanes are combined in pairs.
  float (*reduce)(Alu, const float* x, std::size_t count) noexcept;
  void (*multiply)(const MultiplyArgs&) noexcept;
  // The random words of elements draw.index, draw.index + 1 ...
  void (*words)(const Draw&, std::size_t count, std::uint32_t* out) noexcept;
};

}  // namespace SOMA_NAMESPACE::neuroncore
