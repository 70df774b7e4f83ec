// Elementary functions of the kernels against a double libm: the errors that simd/math-inl.hpp
// states, special values, and the same bits on every target.

#include <soma/kernels/reference/element.hpp>
#include <soma/kernels/table.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/matrices.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// y = f(x), or f'(x).
std::vector<float> apply(const Kernels& kernels, Unary function, bool derivative,
                         const std::vector<float>& x) {
  std::vector<float> y(x.size(), -7);
  const float one = 1;
  UnaryArgs args;
  args.function = function;
  args.rows = 1;
  args.columns = x.size();
  args.x = plain(x, x.size());
  args.dy = {&one, DType::fp32, 0, 0, 1, 0};
  args.y = plain_target(y, x.size());
  (derivative ? kernels.element.unary_backward : kernels.element.unary)(args);
  return y;
}

// A function, where, and its largest error: in ulp where the result is normal (in units of 2^-149
// where it is not), or absolute.
struct Bound {
  Unary function;
  bool derivative;
  float low, high;
  double ulps, absolute;
};

constexpr bool forward = false, derivative = true;
constexpr Bound bounds[] = {
    {Unary::exponential, forward, -infinity, infinity, 0.9, 0},
    {Unary::logarithm, forward, -infinity, infinity, 0.9, 0},
    {Unary::sine, forward, -infinity, infinity, 1.6, 0},
    {Unary::cosine, forward, -infinity, infinity, 1.6, 0},
    {Unary::sine, derivative, -infinity, infinity, 1.6, 0},
    {Unary::cosine, derivative, -infinity, infinity, 1.6, 0},
    {Unary::tanh, forward, -infinity, infinity, 1.5, 0},
    {Unary::tanh, derivative, -infinity, infinity, 5, 0},
    {Unary::sigmoid, forward, -infinity, infinity, 2.5, 0},
    {Unary::sigmoid, derivative, -infinity, infinity, 5, 0},
    {Unary::silu, forward, -87, infinity, 3.5, 0},
    {Unary::silu, forward, -infinity, -87, 0, 0x1p-142},
    {Unary::silu, derivative, 0, infinity, 3, 0},
    {Unary::silu, derivative, -87, -2, 6, 0},
    {Unary::silu, derivative, -infinity, infinity, 0, 0x1p-22},
    {Unary::softplus, forward, -infinity, infinity, 1.9, 0},
    {Unary::softplus, derivative, -infinity, infinity, 2.5, 0},
    {Unary::gelu, forward, -infinity, infinity, 5, 0},
    {Unary::gelu, derivative, 0, infinity, 3, 0},
    {Unary::gelu, derivative, -13, -2, 3.5, 0},
    {Unary::gelu, derivative, -infinity, infinity, 0, 0x1.6ap-23},  // 2^-22.5
    {Unary::gelu_tanh, forward, 0, infinity, 2.5, 0},
    {Unary::gelu_tanh, forward, -3, 0, 14, 0},
    {Unary::gelu_tanh, forward, -10, 0, 210, 0},
    {Unary::gelu_tanh, forward, -infinity, 0, 0, 0x1p-24},
    {Unary::gelu_tanh, derivative, 0, infinity, 3, 0},
    {Unary::gelu_tanh, derivative, -infinity, infinity, 0, 0x1p-22},
    {Unary::gelu_sigmoid, forward, 0, infinity, 2.5, 0},
    // The rounding of 1.702 x, at most 85.1, makes 64 of these ulp; that of 1.702 makes 18.4.
    {Unary::gelu_sigmoid, forward, -50, 0, 86, 0},
    {Unary::gelu_sigmoid, forward, -infinity, 0, 0, 0x1p-24},
    {Unary::gelu_sigmoid, derivative, -infinity, infinity, 0, 0x1p-21},
    {Unary::gelu_clipped, forward, -infinity, infinity, 5, 0},
    {Unary::gelu_clipped, derivative, -infinity, infinity, 0, 0x1.6ap-23},
    {Unary::mish, forward, -87, infinity, 5, 0},
    {Unary::mish, forward, -infinity, -87, 0, 0x1p-141},
    {Unary::mish, derivative, -infinity, infinity, 0, 0x1p-21},
    {Unary::leaky_relu, forward, -infinity, infinity, 0.5, 0},
    {Unary::leaky_relu, derivative, -infinity, infinity, 0.5, 0},
    {Unary::relu6, forward, -infinity, infinity, 0, 0x1p-149},
    {Unary::relu6, derivative, -infinity, infinity, 0, 0x1p-149},
    {Unary::relu_squared, forward, -infinity, infinity, 0.5, 0},
    {Unary::relu_squared, derivative, -infinity, infinity, 0.5, 0},
    {Unary::laplace, forward, -infinity, infinity, 0, 0x1p-22},
    {Unary::laplace, derivative, -infinity, infinity, 0, 0x1p-21},
    {Unary::elu, forward, -infinity, infinity, 2.5, 0},
    {Unary::elu, derivative, -infinity, infinity, 0.9, 0},
    {Unary::hard_sigmoid, forward, -infinity, infinity, 0, 0x1p-23},
    {Unary::hard_sigmoid, derivative, -infinity, infinity, 0.5, 0},
    {Unary::hard_swish, forward, -infinity, infinity, 2, 0},
    {Unary::hard_swish, derivative, -infinity, infinity, 0, 0x1p-23},
    {Unary::hard_tanh, forward, -infinity, infinity, 0, 0x1p-149},
    {Unary::hard_tanh, derivative, -infinity, infinity, 0, 0x1p-149},
    // Correctly rounded, or two such steps.
    {Unary::square, forward, -infinity, infinity, 0.5, 0},
    {Unary::square_root, forward, -infinity, infinity, 0.5, 0},
    {Unary::square_root, derivative, -infinity, infinity, 1.5, 0},
    {Unary::reciprocal, forward, -infinity, infinity, 0.5, 0},
    {Unary::reciprocal, derivative, -infinity, infinity, 2.5, 0},  // 1/x twice, and a product
    {Unary::logarithm, derivative, -infinity, infinity, 0.5, 0},
};

// The worst of a run of bit patterns, as a multiple of what is allowed.
struct Worst {
  double excess = 0;
  float at = 0;
};

bool agrees(float got, double wanted) {
  const auto rounded = static_cast<float>(wanted);
  return std::isnan(wanted) ? std::isnan(got) : got == rounded;
}

Worst worst_of(const Bound& bound, const std::vector<float>& x, const std::vector<float>& y) {
  Worst worst;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!std::isnan(x[i]) && !(x[i] >= bound.low && x[i] <= bound.high)) continue;
    const auto at = static_cast<double>(x[i]);
    const double wanted = bound.derivative ? reference::unary_derivative(bound.function, at)
                                           : reference::unary(bound.function, at);
    double excess;
    if (std::isnan(wanted) || std::isinf(static_cast<float>(wanted)) || !std::isfinite(y[i])) {
      excess = agrees(y[i], wanted) ? 0 : infinity;
    } else {
      const double allowed =
          bound.absolute != 0
              ? bound.absolute
              : (bound.ulps + (std::fabs(wanted) < 0x1p-126 ? 0.5 : 0)) * ulp_of(wanted);
      // fp32's own results are compared as they are: half a unit needs a margin for the rounding of
      // the reference.
      excess = std::fabs(static_cast<double>(y[i]) - wanted) / (allowed * (1 + 1e-9));
    }
    if (excess > worst.excess) worst = {excess, x[i]};
  }
  return worst;
}

// Every `step`-th of all floats.
void sweep(const Kernels& kernels, std::uint64_t first, std::uint64_t step) {
  constexpr std::size_t chunk = 1 << 16;
  for (const Bound& bound : bounds) {
    Worst worst;
    std::vector<float> x;
    for (std::uint64_t bits = first; bits < (std::uint64_t{1} << 32); bits += step) {
      x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
      if (x.size() < chunk && bits + step < (std::uint64_t{1} << 32)) continue;
      const Worst here = worst_of(bound, x, apply(kernels, bound.function, bound.derivative, x));
      if (here.excess > worst.excess) worst = here;
      x.clear();
    }
    INFO("function " << static_cast<int>(bound.function) << ", derivative " << bound.derivative
                     << ", from " << bound.low << ": " << worst.excess << " of the bound at "
                     << worst.at);
    CHECK(worst.excess <= 1);
    // The bounds are no wider than they have to be.
    if (step < 1000 && bound.ulps > 0.5) CHECK(worst.excess > 0.6);
  }
}

// Both signs of the places where something happens, and their neighbours.
std::vector<float> special_floats() {
  std::vector<float> values;
  for (const float place :
       {0.0f,       0x1p-149f,   0x1p-126f,   0x1p-64f,      1e-3f,       0.41421356f, 0.5f,
        0.6f,       0.70710678f, 0.78539816f, 1.0f,          1.41421356f, 1.57079633f, 3.14159265f,
        4.0f,       12.0f,       13.2f,       14.2f,         15.0f,       44.4f,       51.9f,
        87.336544f, 88.722839f,  90.0f,       103.97208f,    105.0f,      110.0f,      411774.84f,
        1e6f,       1e10f,       0x1p126f,    3.4028235e38f, infinity}) {
    for (const float value :
         {place, std::nextafter(place, infinity), std::nextafter(place, 0.0f)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  values.push_back(std::numeric_limits<float>::quiet_NaN());
  return values;
}

}  // namespace

TEST_CASE("elementary functions are as accurate as stated", "[unit][math]") {
  auto context = make_context();
  sweep(context.kernels(), 0, 4093);
}

TEST_CASE("elementary functions are as accurate as stated, densely", "[slow][math]") {
  auto context = make_context();
  sweep(context.kernels(), 5, 61);
}

TEST_CASE("elementary functions at special values, on every target", "[unit][math]") {
  auto any = make_context();
  const std::vector<float> x = special_floats();
  for (const Target& target : any.targets().targets) {
    for (const Bound& bound : bounds) {
      const Worst worst =
          worst_of(bound, x, apply(*target.kernels, bound.function, bound.derivative, x));
      INFO(std::string(target.name) << ": function " << static_cast<int>(bound.function)
                                    << ", derivative " << bound.derivative << " at " << worst.at);
      CHECK(worst.excess <= 1);
    }
  }
}

TEST_CASE("where exp leaves the fp32 range", "[unit][math]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    // The last argument whose result rounds to a finite number, the first beyond; and the last and
    // first around half the smallest subnormal number.
    const std::vector<float> x{0x1.62e42ep6f, 0x1.62e430p6f, -0x1.9fe368p6f, -0x1.9fe36ap6f};
    const std::vector<float> y = apply(*target.kernels, Unary::exponential, false, x);
    INFO(std::string(target.name));
    CHECK(std::isfinite(y[0]));
    CHECK(y[1] == infinity);
    CHECK(y[2] == 0x1p-149f);
    CHECK(y[3] == 0);
  }
}

TEST_CASE("elementary functions keep the signs of zeros", "[unit][math]") {
  auto any = make_context();
  for (const Target& target : any.targets().targets) {
    for (const Unary function : {Unary::copy, Unary::sine, Unary::gelu, Unary::gelu_tanh,
                                 Unary::tanh, Unary::silu, Unary::square_root, Unary::gelu_sigmoid,
                                 Unary::gelu_clipped, Unary::mish, Unary::leaky_relu}) {
      const std::vector<float> y = apply(*target.kernels, function, false, {0.0f, -0.0f});
      INFO(std::string(target.name) << ": function " << static_cast<int>(function));
      CHECK(std::bit_cast<std::uint32_t>(y[0]) == 0);
      CHECK(std::bit_cast<std::uint32_t>(y[1]) == 0x80000000u);
    }
  }
}

TEST_CASE("elementary functions have the same bits on every target", "[unit][math][invariance]") {
  auto any = make_context();
  std::vector<float> x = special_floats();
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 150001)
    x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  for (std::size_t i = 0; i < 20000; ++i) x.push_back((static_cast<float>(i) - 10000.0f) * 0x1p-9f);
  for (int function = 0; function < static_cast<int>(unary_count); ++function)
    for (const bool slope : {false, true}) {
      const auto of = [&](const Target& target) {
        return apply(*target.kernels, static_cast<Unary>(function), slope, x);
      };
      const std::vector<float> best = of(any.targets().targets[0]);
      for (const Target& target : any.targets().targets) {
        INFO(std::string(target.name) << ": function " << function << ", derivative " << slope);
        CHECK(same_bits(best, of(target)));
      }
    }
}
