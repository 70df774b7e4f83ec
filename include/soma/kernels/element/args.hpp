#pragma once
// Element-wise functions, over a matrix of any strides on the way in (stride 0 broadcasts) and
// adjacent columns on the way out. Computed in fp32, rounded once.

#include <soma/kernels/operand.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace SOMA_NAMESPACE {

// A new function takes five files: here its name; kernels/reference/element.hpp, its definition and
// derivative; kernels/element/functions-inl.hpp, the same in vectors; programs/element/unary.hpp,
// as instructions of the accelerator's core; autograd/functions.hpp, what models call. Operators,
// gradients, samples and tests follow from these.
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
  silu,          // x sigmoid(x)
  softplus,      // log(1 + exp x)
  gelu_sigmoid,  // x sigmoid(1.702 x)
  gelu_clipped,  // gelu, at most 10
  mish,          // x tanh(softplus x)
  leaky_relu,    // x, below zero x / 100
  relu6,         // relu, at most 6
  relu_squared,  // relu(x)^2
  laplace,       // the normal distribution's sum up to x, about 0.707107 with deviation 0.282095
  elu,           // x, below zero exp(x) - 1
  hard_sigmoid,  // (x + 3) / 6, within 0 to 1
  hard_swish,    // x hard_sigmoid(x)
  hard_tanh,     // x, within -1 to 1
};

// Beside the formulas, which are in kernels/reference/element.hpp: the operator's name, and from
// where on it is sampled by tests (up to 6).
struct UnaryFunction {
  Unary function;
  std::string_view name;
  float least_sample = -6;
};
inline constexpr UnaryFunction unary_functions[] = {
    {Unary::copy, "copy"},
    {Unary::negate, "negate"},
    {Unary::absolute, "absolute"},
    {Unary::square, "square"},
    {Unary::square_root, "square_root", 0.1f},
    {Unary::reciprocal, "reciprocal", 0.1f},
    {Unary::exponential, "exponential"},
    {Unary::logarithm, "logarithm", 0.1f},
    {Unary::sine, "sine"},
    {Unary::cosine, "cosine"},
    {Unary::relu, "relu"},
    {Unary::gelu, "gelu"},
    {Unary::gelu_tanh, "gelu_tanh"},
    {Unary::tanh, "tanh"},
    {Unary::sigmoid, "sigmoid"},
    {Unary::silu, "silu"},
    {Unary::softplus, "softplus"},
    {Unary::gelu_sigmoid, "gelu_sigmoid"},
    {Unary::gelu_clipped, "gelu_clipped"},
    {Unary::mish, "mish"},
    {Unary::leaky_relu, "leaky_relu"},
    {Unary::relu6, "relu6"},
    {Unary::relu_squared, "relu_squared"},
    {Unary::laplace, "laplace"},
    {Unary::elu, "elu"},
    {Unary::hard_sigmoid, "hard_sigmoid"},
    {Unary::hard_swish, "hard_swish"},
    {Unary::hard_tanh, "hard_tanh"},
};
inline constexpr std::size_t unary_count = std::size(unary_functions);

constexpr const UnaryFunction& describe(Unary function) {
  return unary_functions[static_cast<std::size_t>(function)];
}
static_assert(
    [] {
      for (std::size_t i = 0; i < unary_count; ++i)
        if (unary_functions[i].function != static_cast<Unary>(i)) return false;
      return true;
    }(),
    "the table has the functions in the order of the enumeration");

inline constexpr float leaky_slope = 0.01f;  // the slope of leaky_relu below zero
inline constexpr float gelu_clip = 10;       // the most that gelu_clipped gives, and where

// True if the function is constant somewhere: there its gradient is 0, whatever dy is.
constexpr bool is_cut_off(Unary function) {
  return function == Unary::relu || function == Unary::relu6 || function == Unary::relu_squared ||
         function == Unary::gelu_clipped || function == Unary::hard_sigmoid ||
         function == Unary::hard_swish || function == Unary::hard_tanh;
}

// The function that a linear layer applies as an activation.
constexpr Unary unary_of(Activation activation) {
  switch (activation) {
    case Activation::none:
      return Unary::copy;
    case Activation::relu:
      return Unary::relu;
    case Activation::gelu:
      return Unary::gelu;
    case Activation::gelu_tanh:
      return Unary::gelu_tanh;
    case Activation::tanh:
      return Unary::tanh;
    case Activation::sigmoid:
      return Unary::sigmoid;
    case Activation::silu:
      return Unary::silu;
    case Activation::gelu_sigmoid:
      return Unary::gelu_sigmoid;
    case Activation::gelu_clipped:
      return Unary::gelu_clipped;
    case Activation::mish:
      return Unary::mish;
    case Activation::leaky_relu:
      return Unary::leaky_relu;
    case Activation::relu6:
      return Unary::relu6;
    case Activation::relu_squared:
      return Unary::relu_squared;
    case Activation::laplace:
      return Unary::laplace;
  }
  return Unary::copy;
}

enum class Binary : std::uint8_t { add, subtract, multiply, divide, maximum, minimum };
inline constexpr std::size_t binary_count = static_cast<std::size_t>(Binary::minimum) + 1;

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

// y = silu(a) b, where x holds a in its first `columns` columns and b in the next ones.
struct GatedArgs {
  std::size_t rows = 0, columns = 0;  // those of y
  MatrixOperand x{};                  // rows x 2 columns
  MatrixTarget y{};
  // backward: dx has the columns of x
  MatrixOperand dy{};
  MatrixTarget dx{};
};

struct ElementKernels {
  void (*unary)(const UnaryArgs&) noexcept;
  void (*unary_backward)(const UnaryArgs&) noexcept;
  void (*binary)(const BinaryArgs&) noexcept;
  void (*dropout)(const DropArgs&) noexcept;
  void (*gated)(const GatedArgs&) noexcept;
  void (*gated_backward)(const GatedArgs&) noexcept;
};

}  // namespace SOMA_NAMESPACE
