// The functions that a model is written with: each applies the operator, and the setting, that its
// name says. The operators themselves are tested one by one in ops/operators_test.cpp.

#include <soma/soma.hpp>

#include "catch.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <vector>

using namespace soma;

namespace {

// Kernels are right to some units of 2^-24 of values near 1; what another function would give is
// farther away.
constexpr double bound = 1e-6;

const std::vector<float> xs = {-2.5f, -1, -0.25f, 0.5f, 1, 3};
const std::vector<float> positive = {0.25f, 0.5f, 1, 1.5f, 2, 3};
const std::vector<float> others = {1, -2, 0.75f, -0.5f, 2, 1.25f};

Var constant(Tape& tape, const std::vector<float>& values, const Shape& shape) {
  return tape.constant(Tensor::from(tape.context(), std::span<const float>(values), shape));
}
Var constant(Tape& tape, const std::vector<float>& values) {
  return constant(tape, values, Shape{values.size()});
}

void check_values(const Var& y, const std::vector<double>& wanted) {
  const std::span<const float> values = y.value().span<float>();
  REQUIRE(values.size() == wanted.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    INFO("element " << i << ": " << values[i] << ", wanted " << wanted[i]);
    CHECK(std::abs(static_cast<double>(values[i]) - wanted[i]) <=
          bound * (1 + std::abs(wanted[i])));
  }
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

TEST_CASE("functions of one number", "[unit][autograd]") {
  auto context = make_context({.threads = 1});
  Tape tape(context);
  struct Case {
    std::string_view name;
    Var (*function)(Tape&, const Var&);
    double (*formula)(double);
    const std::vector<float>* inputs = &xs;
  };
  const double pi = std::acos(-1.0);
  static double gelu_slope = 0;
  gelu_slope = std::sqrt(2 / pi);
  const Case cases[] = {
      {"neg", neg, [](double x) { return -x; }},
      {"abs", soma::abs, [](double x) { return std::abs(x); }},
      {"square", square, [](double x) { return x * x; }},
      {"sqrt", soma::sqrt, [](double x) { return std::sqrt(x); }, &positive},
      {"reciprocal", reciprocal, [](double x) { return 1 / x; }},
      {"exp", soma::exp, [](double x) { return std::exp(x); }},
      {"log", soma::log, [](double x) { return std::log(x); }, &positive},
      {"sin", soma::sin, [](double x) { return std::sin(x); }},
      {"cos", soma::cos, [](double x) { return std::cos(x); }},
      {"relu", relu, [](double x) { return x > 0 ? x : 0; }},
      {"gelu", gelu, [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }},
      {"gelu_tanh", gelu_tanh,
       [](double x) { return x / 2 * (1 + std::tanh(gelu_slope * (x + 0.044715 * x * x * x))); }},
      {"tanh", soma::tanh, [](double x) { return std::tanh(x); }},
      {"sigmoid", sigmoid, sigmoid_of},
      {"silu", silu, [](double x) { return x * sigmoid_of(x); }},
      {"softplus", softplus, [](double x) { return std::log1p(std::exp(x)); }},
      {"gelu_sigmoid", gelu_sigmoid, [](double x) { return x * sigmoid_of(1.702 * x); }},
      {"gelu_clipped", gelu_clipped,
       [](double x) { return (std::min)(10.0, x * 0.5 * std::erfc(-x / std::sqrt(2.0))); }},
      {"mish", mish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
      {"leaky_relu", leaky_relu, [](double x) { return x < 0 ? 0.01 * x : x; }},
      {"relu6", relu6, [](double x) { return (std::min)((std::max)(x, 0.0), 6.0); }},
      {"relu_squared", relu_squared, [](double x) { return x > 0 ? x * x : 0; }},
      {"laplace", laplace,
       [](double x) { return 0.5 * (1 + std::erf((x - 0.707107) / (0.282095 * std::sqrt(2.0)))); }},
  };
  for (const Case& each : cases) {
    INFO(each.name);
    std::vector<double> wanted;
    for (const float x : *each.inputs) wanted.push_back(each.formula(static_cast<double>(x)));
    check_values(each.function(tape, constant(tape, *each.inputs)), wanted);
  }
}

TEST_CASE("functions of two numbers", "[unit][autograd]") {
  auto context = make_context({.threads = 1});
  Tape tape(context);
  struct Case {
    std::string_view name;
    Var (*function)(Tape&, const Var&, const Var&);
    double (*formula)(double, double);
  };
  const Case cases[] = {
      {"add", add, [](double a, double b) { return a + b; }},
      {"sub", sub, [](double a, double b) { return a - b; }},
      {"mul", mul, [](double a, double b) { return a * b; }},
      {"div", div, [](double a, double b) { return a / b; }},
      {"maximum", maximum, [](double a, double b) { return (std::max)(a, b); }},
      {"minimum", minimum, [](double a, double b) { return (std::min)(a, b); }},
  };
  for (const Case& each : cases) {
    INFO(each.name);
    std::vector<double> wanted;
    for (std::size_t i = 0; i < xs.size(); ++i)
      wanted.push_back(each.formula(static_cast<double>(xs[i]), static_cast<double>(others[i])));
    check_values(each.function(tape, constant(tape, xs), constant(tape, others)), wanted);
  }
}

TEST_CASE("functions of rows", "[unit][autograd]") {
  auto context = make_context({.threads = 1});
  Tape tape(context);
  const std::vector<float> gammas = {1.5f, -1, 2}, betas = {0.5f, 0, -1};
  const Var x = constant(tape, xs, {2, 3}), gamma = constant(tape, gammas),
            beta = constant(tape, betas);
  std::vector<double> layer, rms, soft, log_soft;
  for (std::size_t row = 0; row < 2; ++row) {
    const std::vector<double> values(xs.begin() + static_cast<std::ptrdiff_t>(3 * row),
                                     xs.begin() + static_cast<std::ptrdiff_t>(3 * row + 3));
    double mean = 0, squares = 0, variance = 0, exponentials = 0;
    for (const double v : values) {
      mean += v / 3;
      squares += v * v / 3;
      exponentials += std::exp(v);
    }
    for (const double v : values) variance += (v - mean) * (v - mean) / 3;
    for (std::size_t i = 0; i < 3; ++i) {
      const double g = static_cast<double>(gammas[i]), b = static_cast<double>(betas[i]);
      layer.push_back((values[i] - mean) / std::sqrt(variance + 1e-3) * g + b);
      rms.push_back(values[i] / std::sqrt(squares + 1e-3) * g);
      soft.push_back(std::exp(values[i]) / exponentials);
      log_soft.push_back(values[i] - std::log(exponentials));
    }
  }
  check_values(layer_norm(tape, x, gamma, beta, 1e-3f), layer);
  check_values(rms_norm(tape, x, gamma, 1e-3f), rms);
  check_values(softmax(tape, x), soft);
  check_values(log_softmax(tape, x), log_soft);
}

TEST_CASE("losses and reductions", "[unit][autograd]") {
  auto context = make_context({.threads = 1});
  Tape tape(context);
  const std::vector<float> targets = {0, 1, 0.25f, 1, 0, 0.5f};
  const Var x = constant(tape, xs), target = constant(tape, targets);
  std::vector<double> squares, crosses;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const double v = static_cast<double>(xs[i]), t = static_cast<double>(targets[i]);
    squares.push_back((v - t) * (v - t));
    crosses.push_back(-t * std::log(sigmoid_of(v)) - (1 - t) * std::log(1 - sigmoid_of(v)));
  }
  const auto total = [](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
  };
  for (const auto& [function, each] :
       {std::pair{&mse_loss, &squares}, std::pair{&binary_cross_entropy_with_logits, &crosses}}) {
    check_values(function(tape, x, target, LossReduction::none), *each);
    check_values(function(tape, x, target, LossReduction::sum), {total(*each)});
    check_values(function(tape, x, target, LossReduction::mean), {total(*each) / 6});
  }
  const Var matrix = constant(tape, xs, {2, 3});
  check_values(sum(tape, matrix), {0.75});
  check_values(mean(tape, matrix), {0.125});
  check_values(sum(tape, matrix, 1u << 1), {-3.75, 4.5});
  check_values(mean(tape, matrix, 1u << 0), {-1, 0, 1.375});
}
