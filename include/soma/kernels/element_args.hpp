#pragma once
// Element-wise functions, over a matrix of any strides on the way in (stride 0 broadcasts) and
// adjacent columns on the way out. Computed in fp32, rounded once.

#include <soma/kernels/operand.hpp>

#include <cstddef>
#include <cstdint>

namespace soma {

enum class Unary : std::uint8_t {
  copy,
  negate,
  absolute,
  square,
  square_root,
  reciprocal,
  exponential,
  logarithm,
  sine,
  cosine,
  relu,
  gelu,       // x/2 (1 + erf(x / sqrt 2))
  gelu_tanh,  // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  tanh,
  sigmoid,
  silu,      // x sigmoid(x)
  softplus,  // log(1 + exp x)
};

enum class Binary : std::uint8_t { add, subtract, multiply, divide, maximum, minimum };

struct UnaryArgs {
  Unary function = Unary::copy;
  std::size_t rows = 0, columns = 0;
  MatrixOperand x{};
  MatrixTarget y{};
  // backward: y = dy * f'(x)
  MatrixOperand dy{};
};

struct BinaryArgs {
  Binary function = Binary::add;
  std::size_t rows = 0, columns = 0;
  MatrixOperand a{}, b{};
  // y = f(a, b); for add and subtract b is multiplied by this first, rounded apart
  float b_scale = 1;
  MatrixTarget y{};
};

// y = x kept and scaled, or 0. Also its own gradient.
struct DropArgs {
  std::size_t rows = 0, columns = 0;
  MatrixOperand x{};
  DropoutArgs dropout{};
  MatrixTarget y{};
};

struct ElementKernels {
  void (*unary)(const UnaryArgs&) noexcept;
  void (*unary_backward)(const UnaryArgs&) noexcept;
  void (*binary)(const BinaryArgs&) noexcept;
  void (*dropout)(const DropArgs&) noexcept;
};

}  // namespace soma
