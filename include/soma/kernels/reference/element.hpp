#pragma once
// The definition of each element-wise function, and of its derivative, as plain scalar code in any
// floating type. Kernels, operators and the layers that apply an activation are compared with it.
// At the infinities a function has its limit.

#include <soma/kernels/element/args.hpp>

#include <cmath>
#include <limits>
#include <numbers>

namespace SOMA_NAMESPACE::reference {

// sqrt(2/pi) (x + 0.044715 x^3)
template <class T>
T gelu_tanh_argument(T x) {
  return std::sqrt(T(2) / std::numbers::pi_v<T>) * (x + T(0.044715) * x * x * x);
}

// How many deviations of laplace x lies above the middle.
template <class T>
T laplace_argument(T x) {
  return (x - T(0.707107)) / T(0.282095);
}

template <class T>
T unary(Unary function, T x) {
  const bool vanished = x == -std::numeric_limits<T>::infinity();
  switch (function) {
    case Unary::copy:
      return x;
    case Unary::negate:
      return -x;
    case Unary::absolute:
      return std::fabs(x);
    case Unary::square:
      return x * x;
    case Unary::square_root:
      return std::sqrt(x);
    case Unary::reciprocal:
      return 1 / x;
    case Unary::exponential:
      return std::exp(x);
    case Unary::logarithm:
      return std::log(x);
    case Unary::sine:
      return std::sin(x);
    case Unary::cosine:
      return std::cos(x);
    case Unary::relu:
      return x < 0 ? 0 : x;
    case Unary::gelu:  // (1 + erf(t)) / 2 = erfc(-t) / 2, without its cancellation
      return vanished ? T(0) : x / 2 * std::erfc(-x / std::numbers::sqrt2_v<T>);
    case Unary::gelu_tanh:  // (1 + tanh u) / 2 = 1 / (1 + exp(-2 u))
      return vanished ? T(0) : x / (1 + std::exp(-2 * gelu_tanh_argument(x)));
    case Unary::tanh:
      return std::tanh(x);
    case Unary::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Unary::silu:
      return vanished ? T(0) : x / (1 + std::exp(-x));
    case Unary::softplus:
      return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x)));
    case Unary::gelu_sigmoid:
      return vanished ? T(0) : x / (1 + std::exp(T(-1.702) * x));
    case Unary::gelu_clipped: {
      const T y = unary(Unary::gelu, x);
      return y > T(gelu_clip) ? T(gelu_clip) : y;
    }
    case Unary::mish: {  // tanh(log(1 + n)) = (n^2 + 2 n) / (n^2 + 2 n + 2), divided by n^2
      if (vanished) return T(0);
      const T n = std::exp(x), inverse = std::exp(-x);
      return x < 0 ? x * (n * (n + 2)) / (n * (n + 2) + 2)
                   : x * (1 + 2 * inverse) / (1 + 2 * inverse + 2 * inverse * inverse);
    }
    case Unary::leaky_relu:
      return x < 0 ? x * T(leaky_slope) : x;
    case Unary::relu6:
      return x < 0 ? T(0) : x > 6 ? T(6) : x;
    case Unary::relu_squared:
      return x < 0 ? T(0) : x * x;
    case Unary::laplace:
      return std::erfc(-laplace_argument(x) / std::numbers::sqrt2_v<T>) / 2;
    case Unary::elu:
      return x > 0 ? x : std::expm1(x);
    case Unary::hard_sigmoid:
      return x < -3 ? T(0) : x > 3 ? T(1) : (x + 3) / 6;
    case Unary::hard_swish:
      return x < -3 ? T(0) : x > 3 ? x : x * (x + 3) / 6;
    case Unary::hard_tanh:
      return x < -1 ? T(-1) : x > 1 ? T(1) : x;
  }
  return x;
}

// Where a function has a corner the derivative there is 0; that of |x| has x's sign there. relu has
// the derivative 1 at NaN: its gradient passes wherever x is not known to be cut off.
template <class T>
T unary_derivative(Unary function, T x) {
  const auto logistic = [](T v) { return 1 / (1 + std::exp(-v)); };
  const auto logistic_slope = [](T v) { return 1 / (2 + 2 * std::cosh(v)); };
  const bool infinite = std::isinf(x);
  switch (function) {
    case Unary::copy:
      return 1;
    case Unary::negate:
      return -1;
    case Unary::absolute:
      return x > 0 ? T(1) : x < 0 ? T(-1) : x;
    case Unary::square:
      return 2 * x;
    case Unary::square_root:
      return T(0.5) / std::sqrt(x);
    case Unary::reciprocal:
      return -1 / (x * x);
    case Unary::exponential:
      return std::exp(x);
    case Unary::logarithm:
      return 1 / x;
    case Unary::sine:
      return std::cos(x);
    case Unary::cosine:
      return -std::sin(x);
    case Unary::relu:
      return x <= 0 ? T(0) : T(1);
    case Unary::gelu:  // Phi(x) + x phi(x)
      if (infinite) return x > 0 ? 1 : 0;
      return std::erfc(-x / std::numbers::sqrt2_v<T>) / 2 +
             x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi_v<T>);
    case Unary::gelu_tanh: {
      if (std::fabs(x) > 100) return x > 0 ? 1 : 0;
      const T u = gelu_tanh_argument(x);
      const T slope = std::sqrt(T(2) / std::numbers::pi_v<T>) * (1 + 3 * T(0.044715) * x * x);
      return logistic(2 * u) + x * logistic_slope(2 * u) * 2 * slope;
    }
    case Unary::tanh:
      return 1 / (std::cosh(x) * std::cosh(x));
    case Unary::sigmoid:
      return logistic_slope(x);
    case Unary::silu:
      if (infinite) return x > 0 ? 1 : 0;
      return logistic(x) + x * logistic_slope(x);
    case Unary::softplus:
      return logistic(x);
    case Unary::gelu_sigmoid: {
      if (infinite) return x > 0 ? 1 : 0;
      const T v = T(1.702) * x;
      return logistic(v) + v * logistic_slope(v);
    }
    case Unary::gelu_clipped:
      return x > T(gelu_clip) ? T(0) : unary_derivative(Unary::gelu, x);
    case Unary::mish: {
      if (std::fabs(x) > 300) return x > 0 ? 1 : 0;
      const T gate = std::tanh((x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))));
      return gate + x * (1 - gate * gate) * logistic(x);
    }
    case Unary::leaky_relu:
      return x > 0 ? T(1) : T(leaky_slope);
    case Unary::relu6:
      return x <= 0 || x >= 6 ? T(0) : T(1);
    case Unary::relu_squared:
      return x <= 0 ? T(0) : 2 * x;
    case Unary::laplace: {
      const T t = laplace_argument(x);
      return std::exp(-t * t / 2) / (T(0.282095) * std::sqrt(2 * std::numbers::pi_v<T>));
    }
    case Unary::elu:
      return x > 0 ? T(1) : std::exp(x);
    case Unary::hard_sigmoid:
      return x <= -3 || x >= 3 ? T(0) : T(1) / 6;
    case Unary::hard_swish:
      return x <= -3 ? T(0) : x >= 3 ? T(1) : x / 3 + T(0.5);
    case Unary::hard_tanh:
      return x <= -1 || x >= 1 ? T(0) : T(1);
  }
  return x;
}

// dy times the derivative, in the order of the kernels. The slopes of tanh, sigmoid, GELU and SiLU
// may round to 0 where these functions are almost flat, and the slope of |x| is 0 at 0: an infinite
// or NaN dy then gives NaN, as in PyTorch. Where a function is cut off, as relu is at zero, every
// dy gives 0, as PyTorch's threshold_backward does: sqrt(relu(x)) has a gradient.
template <class T>
T unary_gradient(Unary function, T x, T dy) {
  if (function == Unary::reciprocal) return dy * (1 / x) * -(1 / x);
  if (function == Unary::relu) return x <= 0 ? std::copysign(T(0), dy) : dy;
  const bool above = (function == Unary::gelu_clipped && x > T(gelu_clip)) ||
                     (function == Unary::relu6 && x >= 6) ||
                     (function == Unary::hard_sigmoid && x >= 3) ||
                     (function == Unary::hard_tanh && x >= 1);
  const bool below =
      ((function == Unary::relu6 || function == Unary::relu_squared) && x <= 0) ||
      ((function == Unary::hard_sigmoid || function == Unary::hard_swish) && x <= -3) ||
      (function == Unary::hard_tanh && x <= -1);
  if (above || below) return std::copysign(T(0), dy);
  return dy * unary_derivative(function, x);
}

template <class T>
T binary(Binary function, T a, T b, T b_scale = 1) {
  switch (function) {
    case Binary::add:
      return a + b * b_scale;
    case Binary::subtract:
      return a - b * b_scale;
    case Binary::multiply:
      return a * b;
    case Binary::divide:
      return a / b;
    case Binary::maximum:
      return a > b || std::isnan(a) ? a : b;
    case Binary::minimum:
      return a < b || std::isnan(a) ? a : b;
  }
  return a;
}

template <class T>
T dropout(T x, std::uint32_t word, const DropoutArgs& args) {
  return word < args.threshold ? T(0) : x * static_cast<T>(args.keep_scale);
}

}  // namespace SOMA_NAMESPACE::reference
