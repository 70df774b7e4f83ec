// The Scalar engine: functions against <cmath> in double, scale and bias, accumulators, and what
// lies outside a function's range.

#include "neuroncore/test_core.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace soma_test;
using nc::Function;
using nc::Reduce;
using nc::Tile;
using soma::DType;

namespace {

constexpr double pi = 3.14159265358979323846;
constexpr std::size_t function_count = static_cast<std::size_t>(Function::reciprocal) + 1;

double cumulative(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }

double exact(Function function, double x) {
  const double s = logistic(x);
  switch (function) {
    case Function::copy:
      return x;
    case Function::square:
      return x * x;
    case Function::relu:
      return x > 0 ? x : 0;
    case Function::sign:
      return x > 0 ? 1 : x < 0 ? -1 : 0;
    case Function::absolute:
      return std::fabs(x);
    case Function::sigmoid:
      return s;
    case Function::tanh:
      return std::tanh(x);
    case Function::softplus:
      return std::log1p(std::exp(-std::fabs(x))) + (x > 0 ? x : 0);
    case Function::mish:
      return x * std::tanh(exact(Function::softplus, x));
    case Function::silu:
      return x * s;
    case Function::silu_dx:
      return s * (1 + x * (1 - s));
    case Function::gelu:
      return x * cumulative(x);
    case Function::gelu_dx:
      return cumulative(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * pi);
    case Function::gelu_apprx_tanh:  // (1 + tanh u) / 2 without cancellation
      return x * logistic(2 * std::sqrt(2 / pi) * (x + 0.044715 * x * x * x));
    case Function::gelu_apprx_sigmoid:
      return x * logistic(1.702 * x);
    case Function::gelu_apprx_sigmoid_dx: {
      const double t = logistic(1.702 * x);
      return t + 1.702 * x * t * (1 - t);
    }
    case Function::erf:
      return std::erf(x);
    case Function::erf_dx:
      return 2 / std::sqrt(pi) * std::exp(-x * x);
    case Function::exp:
      return std::exp(x);
    case Function::log:
      return std::log(x);
    case Function::sin:
      return std::sin(x);
    case Function::arctan:
      return std::atan(x);
    case Function::sqrt:
      return std::sqrt(x);
    case Function::rsqrt:
      return 1 / std::sqrt(x);
    case Function::reciprocal:
      return 1 / x;
  }
  return 0;
}

// Arguments within the function's range: a few hundred from -12 to 12, and positive ones of all
// magnitudes where only those are valid.
std::vector<float> arguments(Function function) {
  const nc::FunctionInfo range = info(function);
  std::vector<float> values;
  for (int i = -384; i <= 383; ++i) {
    const auto x = static_cast<float>(i) / 32;
    const float magnitude = function == Function::reciprocal ? std::fabs(x) : x;
    if (magnitude >= range.low && magnitude <= range.high) values.push_back(x);
  }
  for (int e = -80; e <= 80; e += 3) {
    const float x = std::ldexp(1.3f, e);
    if (range.low > 0 && x >= range.low && x <= range.high) values.push_back(x);
  }
  for (int e = -30; e <= -2; ++e) {  // near zero, and near one
    if (range.low <= 0) values.insert(values.end(), {std::ldexp(1.1f, e), std::ldexp(-1.1f, e)});
    values.insert(values.end(), {1 + std::ldexp(1.1f, e), 1 - std::ldexp(1.1f, e)});
  }
  return values;
}

std::vector<float> run(TestCore& test, const std::vector<float>& x, Function function,
                       const nc::ActivationOptions& options = {}, std::size_t partitions = 1) {
  nc::Core::Scope scope(test.core);
  const Tile data = test.tile(DType::fp32, partitions, x);
  const Tile dst = test.core.sbuf.tile(DType::fp32, partitions, x.size() / partitions);
  test.core.scalar.activation(dst, data, function, options);
  return test.values(dst);
}

}  // namespace

TEST_CASE("functions agree with double within their range", "[unit][neuroncore]") {
  TestCore test;
  for (std::size_t i = 0; i < function_count; ++i) {
    const auto function = static_cast<Function>(i);
    INFO(std::string(info(function).name));
    const std::vector<float> x = arguments(function);
    REQUIRE(x.size() > 50);
    const std::vector<float> y = run(test, x, function);
    for (std::size_t j = 0; j < x.size(); ++j) {
      const double wanted = exact(function, static_cast<double>(x[j]));
      // 2^-20 of the value, more where a large argument of exp was rounded: far below the 2^-11
      // that matters to bf16. Derivatives cross zero as the difference of numbers near 1; there it
      // is 2^-23 of those.
      const bool crosses = function == Function::silu_dx || function == Function::gelu_dx ||
                           function == Function::gelu_apprx_sigmoid_dx;
      const double share = 0x1p-20 * std::fmax(1, std::fabs(static_cast<double>(x[j])));
      const double bound = share * std::fabs(wanted) + (crosses ? 0x1p-23 : 0x1p-126);
      if (!(std::fabs(static_cast<double>(y[j]) - wanted) <= bound)) {
        INFO("at " << x[j] << ": " << y[j] << ", wanted " << wanted);
        CHECK(false);
      }
    }
  }
}

TEST_CASE("functions keep to their values or limits however large and small the argument is",
          "[unit][neuroncore]") {
  TestCore test;
  using Limits = std::numeric_limits<float>;
  std::vector<float> x;
  for (const float magnitude : {0.0f, Limits::denorm_min(), 1e-40f, Limits::min(), 1e-30f, 1e3f,
                                1e10f, 1e19f, 2.1e38f, Limits::max(), Limits::infinity()})
    x.insert(x.end(), {magnitude, -magnitude});
  for (std::size_t i = 0; i < function_count; ++i) {
    const auto function = static_cast<Function>(i);
    const std::vector<float> y = run(test, x, function);
    for (std::size_t j = 0; j < x.size(); ++j) {
      const auto argument = static_cast<double>(x[j]);
      double wanted = exact(function, argument);
      // In the formulas an infinity meets zero where the limit is reached long before.
      if (std::isinf(x[j]) && std::isnan(wanted) && function != Function::sin)
        wanted = exact(function, std::copysign(static_cast<double>(Limits::max()), argument));
      INFO(info(function).name << " at " << x[j] << ": " << y[j] << ", wanted " << wanted);
      if (std::isnan(wanted))
        CHECK(std::isnan(y[j]));
      else if (std::fabs(wanted) > static_cast<double>(Limits::max()))
        CHECK(static_cast<double>(y[j]) == std::copysign(HUGE_VAL, wanted));
      else  // 2^-20 as above
        CHECK(std::fabs(static_cast<double>(y[j]) - wanted) <=
              0x1p-20 * std::fabs(wanted) + 0x1p-140);
    }
  }
}

TEST_CASE("the errors of functions are within those of docs/neuroncore.md", "[unit][neuroncore]") {
  const auto bound = [](Function function) {
    return function == Function::gelu_apprx_tanh         ? 210
           : function == Function::gelu_apprx_sigmoid    ? 90
           : function == Function::gelu_apprx_sigmoid_dx ? 120
           : function == Function::erf_dx                ? 70
                                                         : 5;
  };
  TestCore test;
  std::vector<float> x;
  for (int i = -52000; i < 52000; ++i) x.push_back(static_cast<float>(i) / 500);
  for (std::size_t i = 0; i < function_count; ++i) {
    const auto function = static_cast<Function>(i);
    const nc::FunctionInfo range = info(function);
    const std::vector<float> y = run(test, x, function, {}, 8);
    for (std::size_t j = 0; j < x.size(); ++j) {
      const float low = function == Function::reciprocal ? -range.high : range.low;
      if (x[j] < low || x[j] > range.high || (function == Function::reciprocal && x[j] == 0))
        continue;
      const double wanted = exact(function, static_cast<double>(x[j]));
      if (std::fabs(wanted) > static_cast<double>(std::numeric_limits<float>::max())) continue;
      const double ulp = std::ldexp(1, (std::max)(std::ilogb(wanted), -126) - 23);
      const bool crosses = function == Function::silu_dx || function == Function::gelu_dx ||
                           function == Function::gelu_apprx_sigmoid_dx;
      const bool near_zero = crosses && x[j] > -2 && x[j] < 0;
      const double allowed = near_zero ? 0x1p-22 : (std::max)(bound(function) * ulp, 0x1p-142);
      const double error = std::fabs(static_cast<double>(y[j]) - wanted);
      if (!(error <= allowed)) {
        INFO(range.name << " at " << x[j] << ": " << y[j] << ", off by " << error / ulp << " ulp");
        CHECK(false);
      }
    }
  }
}

TEST_CASE("values that have to be exact are", "[unit][neuroncore]") {
  TestCore test;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  CHECK(run(test, {-infinity, 0, -infinity}, Function::exp) == std::vector<float>{0, 1, 0});
  CHECK(run(test, {-2, -0.0f, 3}, Function::relu) == std::vector<float>{0, 0, 3});
  CHECK(run(test, {-2, 0, 3}, Function::sign) == std::vector<float>{-1, 0, 1});
  CHECK(run(test, {4, 0.25f, 2}, Function::rsqrt)[1] == 2);
  CHECK(run(test, {3}, Function::square)[0] == 9);
  for (std::size_t i = 0; i < function_count; ++i) {
    const auto function = static_cast<Function>(i);
    INFO(std::string(info(function).name));
    CHECK(
        std::isnan(run(test, {std::nanf("")}, function)[0]) ==
        (function != Function::relu || std::isnan(run(test, {std::nanf("")}, Function::relu)[0])));
  }
}

TEST_CASE("scale and bias round apart, in that order", "[unit][neuroncore]") {
  TestCore test;
  const std::vector<float> x = steps(8 * 32, 2, 0x1p-22f, 1);
  const std::vector<float> scales = steps(8, 2, 0x1p-22f, 2), biases = steps(8, 2, 0x1p-22f, 3);
  const Tile scale = test.tile(DType::fp32, 8, scales), bias = test.tile(DType::fp32, 8, biases);
  const Tile rough = test.tile(DType::bf16, 8, biases);
  int fused_differs = 0;
  const auto expect = [&](const nc::ActivationOptions& options, const auto& scale_of,
                          const auto& bias_of) {
    const std::vector<float> y = run(test, x, Function::copy, options, 8);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const volatile float product = x[i] * scale_of(i / 32);
      CHECK(y[i] == product + bias_of(i / 32));
      fused_differs += y[i] != std::fma(x[i], scale_of(i / 32), bias_of(i / 32)) ? 1 : 0;
    }
  };
  const auto own_bias = [&](std::size_t p) { return biases[p]; };
  expect(
      {.scale = 1.7f}, [](std::size_t) { return 1.7f; }, [](std::size_t) { return 0.0f; });
  expect(
      {.scale = 1.7f, .bias = &bias}, [](std::size_t) { return 1.7f; }, own_bias);
  expect(
      {.scale_tile = &scale, .bias = &bias}, [&](std::size_t p) { return scales[p]; }, own_bias);
  CHECK(fused_differs > 0);
  expect(
      {.scale_tile = &scale, .bias = &rough}, [&](std::size_t p) { return scales[p]; },
      [&](std::size_t p) { return through(DType::bf16, biases[p]); });
}

TEST_CASE("any type in, any type out, from and to both memories", "[unit][neuroncore]") {
  for (const DType from : {DType::fp32, DType::bf16, DType::fp8_e4m3, DType::int8, DType::int32})
    for (const DType to : {DType::fp32, DType::fp16, DType::fp8_e5m2, DType::uint8}) {
      INFO(to_string(from) << " to " << to_string(to));
      TestCore test;
      nc::Core& core = test.core;
      const Tile data = core.psum.tile(32, 8, from), dst = core.psum.tile(32, 8, to);
      const Tile wide = core.sbuf.tile(DType::fp32, 32, 8);
      core.gpsimd.iota(wide, {.loops = {{1, 8}}, .channel_multiplier = 0});
      core.scalar.copy(data, wide).activation(dst, data, Function::square);
      const std::vector<float> values = test.values(dst);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto x = static_cast<float>(i % 8);
        CHECK(values[i] == (soma::is_floating(to) ? through(to, x * x) : x * x));
      }
    }
}

TEST_CASE("accumulators add the results before they are rounded", "[unit][neuroncore]") {
  for (const nc::ReduceOrder order : {nc::ReduceOrder::lanes, nc::ReduceOrder::ascending}) {
    TestCore test({.reduce_order = order});
    nc::Core& core = test.core;
    const std::vector<float> x = steps(128 * 50, 1, 0x1p-12f, 1);
    const Tile data = test.tile(DType::fp32, 128, x),
               dst = core.sbuf.tile(DType::fp8_e4m3, 128, 50);
    const Tile sum = core.sbuf.tile(DType::fp32, 128, 1);
    core.scalar.activation_reduce(dst, data, Function::square, sum);
    const std::vector<float> sums = test.values(sum);
    std::vector<double> expected(128);
    for (std::size_t i = 0; i < x.size(); ++i)
      expected[i / 50] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    for (std::size_t p = 0; p < 128; ++p)
      CHECK(std::fabs(static_cast<double>(sums[p]) - expected[p]) <= 51 * 0x1p-24 * expected[p]);
    if (order == nc::ReduceOrder::ascending) {
      float total = 0;
      for (std::size_t i = 0; i < 50; ++i) {
        const volatile float square = x[i] * x[i];
        total += square;
      }
      CHECK(sums[0] == total);
    }
  }
}

TEST_CASE("accumulators keep what the commands say", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  const Tile ones = core.sbuf.tile(DType::fp32, 128, 10),
             dst = core.sbuf.tile(DType::fp32, 128, 10);
  const Tile sum = core.sbuf.tile(DType::fp32, 128, 1);
  core.vector.memset(ones, 1);
  const auto run_one = [&](Reduce reduce, std::size_t first, std::size_t end) {
    const Tile part = sum.rows(first, end);
    core.scalar.activation(dst.rows(first, end), ones.rows(first, end), Function::copy,
                           {.reduce = reduce, .reduce_result = &part});
    return test.values(part)[0];
  };
  CHECK(run_one(Reduce::reset_reduce, 0, 128) == 10);
  CHECK(run_one(Reduce::reduce, 0, 128) == 20);
  CHECK(run_one(Reduce::idle, 0, 128) == 20);
  // One for each lane: another half of the partitions has accumulators of its own.
  CHECK(run_one(Reduce::reset_reduce, 0, 64) == 10);
  CHECK(run_one(Reduce::reduce, 64, 128) == 30);
  CHECK(run_one(Reduce::idle, 0, 64) == 10);
  CHECK(run_one(Reduce::reset, 0, 128) == 0);
  CHECK(run_one(Reduce::idle, 64, 128) == 0);
}

TEST_CASE("a sum that lands in dst is not lost", "[unit][neuroncore]") {
  TestCore test;
  const Tile data = test.core.sbuf.tile(DType::fp32, 32, 10);
  test.core.vector.memset(data, 2);
  test.core.scalar.activation_reduce(data, data, Function::square, data.columns(3, 4));
  const std::vector<float> values = test.values(data);
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(values[i] == (i % 10 == 3 ? 40.0f : 4.0f));
}

TEST_CASE("arguments outside a function's range follow the policy", "[unit][neuroncore]") {
  const std::vector<float> x{-9, -3.2f, -1, 0, 3.1f, 3.2f, 9};
  TestCore value, nan({.out_of_range = nc::OutOfRange::nan}),
      error({.out_of_range = nc::OutOfRange::error});
  const std::vector<float> y = run(value, x, Function::sin);
  CHECK(value.core.statistics().out_of_range == 4);
  CHECK(std::fabs(static_cast<double>(y[6]) - std::sin(9.0)) < 1e-5);
  const std::vector<float> z = run(nan, x, Function::sin);
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(std::isnan(z[i]) == (std::fabs(x[i]) > 3.15f));
  CHECK_THAT(message_of([&] { run(error, x, Function::sin); }),
             contains(") is 4 elements of partition 0 outside the range of sin, "
                      "wanted [-3.1415927, 3.1415927]"));
  CHECK_THAT(message_of([&] { run(error, {0}, Function::reciprocal); }),
             contains("reciprocal, wanted [2.2737368e-13, 4398046511104]"));
  CHECK_NOTHROW(run(error, {-3, 3}, Function::sin));
  CHECK(id_of([&] { run(error, {0}, Function::log); }) == "neuroncore.undefined");
  CHECK(id_of([&] { run(error, {-1}, Function::sqrt); }) == "neuroncore.undefined");
  CHECK(id_of([&] { run(error, {0x1p-43f}, Function::reciprocal); }) == "neuroncore.undefined");
  CHECK_NOTHROW(run(error, {-0x1p-42f, 0x1p42f}, Function::reciprocal));
  CHECK_NOTHROW(run(error, {-1e30f, 1e30f}, Function::gelu));
}
