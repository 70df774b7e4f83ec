// These tests check the Vector engine's arithmetic: one rounding an operator and one more to dst,
// reductions and batch statistics.

#include <soma/neuroncore.hpp>

#include "catch.hpp"
#include "neuroncore/test_core.hpp"
#include "support/errors.hpp"
#include "support/samples.hpp"
#include "support/stored_run.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

using namespace soma_test;
using nc::Alu;
using nc::Tile;
using soma::DType;

namespace {

constexpr Alu arithmetic[] = {Alu::add,        Alu::subtract,   Alu::multiply,  Alu::maximum,
                              Alu::minimum,    Alu::equal,      Alu::not_equal, Alu::greater_equal,
                              Alu::greater,    Alu::less_equal, Alu::less,      Alu::logical_and,
                              Alu::logical_or, Alu::logical_xor};

float alu(Alu op, float a, float b) {
  switch (op) {
    case Alu::add:
      return a + b;
    case Alu::subtract:
      return a - b;
    case Alu::multiply:
      return a * b;
    case Alu::maximum:
      return a > b ? a : b;
    case Alu::minimum:
      return a < b ? a : b;
    case Alu::equal:
      return a == b ? 1.0f : 0.0f;
    case Alu::not_equal:
      return a != b ? 1.0f : 0.0f;
    case Alu::greater_equal:
      return a >= b ? 1.0f : 0.0f;
    case Alu::greater:
      return a > b ? 1.0f : 0.0f;
    case Alu::less_equal:
      return a <= b ? 1.0f : 0.0f;
    case Alu::less:
      return a < b ? 1.0f : 0.0f;
    case Alu::logical_and:
      return a != 0 && b != 0 ? 1.0f : 0.0f;
    case Alu::logical_or:
      return a != 0 || b != 0 ? 1.0f : 0.0f;
    case Alu::logical_xor:
      return (a != 0) != (b != 0) ? 1.0f : 0.0f;
    case Alu::absolute:
      return std::fabs(a);
    case Alu::logical_not:
      return a == 0 ? 1.0f : 0.0f;
    default:
      return 0;
  }
}

// Pairs of numbers, some equal, some zero.
std::vector<float> left() { return steps(4 * 100, 3, 0x1p-21f, 1); }
std::vector<float> right() {
  std::vector<float> values = steps(4 * 100, 3, 0x1p-21f, 2);
  const std::vector<float> other = left();
  for (std::size_t i = 0; i < values.size(); i += 7) values[i] = other[i];
  for (std::size_t i = 3; i < values.size(); i += 11) values[i] = 0;
  return values;
}

}  // namespace

TEST_CASE("tensor_tensor rounds once to fp32 and once to dst", "[unit][neuroncore]") {
  for (const DType dtype : {DType::fp32, DType::bf16, DType::fp8_e3m4})
    for (const DType out : {DType::fp32, DType::fp16, DType::int8}) {
      TestCore test;
      const std::vector<float> x = left(), y = right();
      const Tile a = test.tile(dtype, 4, x), b = test.tile(DType::fp32, 4, y);
      const Tile dst = test.core.sbuf.tile(out, 4, 100);
      for (const Alu op : arithmetic) {
        INFO(to_string(op) << " of " << to_string(dtype) << " to " << to_string(out));
        test.core.vector.tensor_tensor(dst, a, b, op);
        const std::vector<float> values = test.values(dst);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const float wanted = alu(op, through(dtype, x[i]), y[i]);
          REQUIRE(values[i] ==
                  (out == DType::int8 ? std::nearbyint(wanted) : through(out, wanted)));
        }
      }
    }
}

TEST_CASE("comparisons with NaN are false, maximum and minimum take the second",
          "[unit][neuroncore]") {
  TestCore test;
  const float nan32 = std::nanf("");
  const Tile a = test.tile(DType::fp32, 1, std::vector<float>{nan32, 1, nan32});
  const Tile b = test.tile(DType::fp32, 1, std::vector<float>{1, nan32, nan32});
  const Tile dst = test.core.sbuf.tile(DType::fp32, 1, 3);
  for (const Alu op : arithmetic) {
    INFO(std::string(to_string(op)));
    const std::vector<float> values =
        (test.core.vector.tensor_tensor(dst, a, b, op), test.values(dst));
    std::vector<float> wanted{alu(op, nan32, 1), alu(op, 1, nan32), alu(op, nan32, nan32)};
    CHECK(same_bits(values, wanted));
  }
}

TEST_CASE("tensor_scalar: two operators, constants and columns, both ways round",
          "[unit][neuroncore]") {
  TestCore test;
  const std::vector<float> x = left(), s = steps(4, 3, 0x1p-21f, 3), t = steps(4, 3, 0x1p-21f, 4);
  const Tile data = test.tile(DType::fp32, 4, x), dst = test.core.sbuf.tile(DType::fp32, 4, 100);
  const Tile column0 = test.tile(DType::fp32, 4, s), column1 = test.tile(DType::fp32, 4, t);
  for (const Alu op0 : arithmetic)
    for (const Alu op1 : arithmetic)
      for (const bool reverse0 : {false, true})
        for (const bool reverse1 : {false, true}) {
          test.core.vector.tensor_scalar(dst, data, op0, column0, op1, column1,
                                         {.reverse0 = reverse0, .reverse1 = reverse1});
          const std::vector<float> values = test.values(dst);
          bool good = true;
          for (std::size_t i = 0; i < x.size(); ++i) {
            const float a = s[i / 100], b = t[i / 100];
            const volatile float first = reverse0 ? alu(op0, a, x[i]) : alu(op0, x[i], a);
            good = good && values[i] == (reverse1 ? alu(op1, b, first) : alu(op1, first, b));
          }
          INFO(to_string(op0) << " " << to_string(op1));
          CHECK(good);
        }
  test.core.vector.tensor_scalar(dst, data, Alu::multiply, 3.0f, Alu::add, 0.1f);
  const volatile float product = x[7] * 3;
  CHECK(test.values(dst)[7] == product + 0.1f);
  test.core.vector.tensor_scalar(dst, data, Alu::absolute, 0, Alu::logical_not);
  CHECK(test.values(dst)[7] == (x[7] == 0 ? 1.0f : 0.0f));
}

TEST_CASE("scalar_tensor_tensor and tensor_scalar_reduce", "[unit][neuroncore]") {
  TestCore test;
  const std::vector<float> x = left(), y = right();
  const Tile a = test.tile(DType::fp32, 4, x), b = test.tile(DType::bf16, 4, y);
  const Tile dst = test.core.sbuf.tile(DType::fp32, 4, 100),
             out = test.core.sbuf.tile(DType::bf16, 4, 100);
  test.core.vector.scalar_tensor_tensor(dst, a, Alu::subtract, 0.3f, Alu::multiply, b,
                                        {.reverse0 = true});
  const std::vector<float> products = test.values(dst);
  for (std::size_t i = 0; i < x.size(); ++i)
    REQUIRE(products[i] == (0.3f - x[i]) * through(DType::bf16, y[i]));

  const Tile result = test.core.sbuf.tile(DType::fp32, 4, 1);
  for (const Alu op : {Alu::add, Alu::multiply, Alu::maximum, Alu::minimum}) {
    test.core.vector.tensor_scalar_reduce(out, a, Alu::multiply, 0.5f, op, result);
    const std::vector<float> halves = test.values(out), totals = test.values(result);
    for (std::size_t p = 0; p < 4; ++p) {
      double total = nc::identity_of(op), magnitude = 0;
      for (std::size_t i = 0; i < 100; ++i) {
        const double half = static_cast<double>(x[p * 100 + i]) / 2;
        REQUIRE(halves[p * 100 + i] == through(DType::bf16, x[p * 100 + i] / 2));
        magnitude += std::fabs(half);
        total = op == Alu::add        ? total + half
                : op == Alu::multiply ? total * half
                : op == Alu::maximum  ? std::fmax(total, half)
                                      : std::fmin(total, half);
      }
      const double bound = op == Alu::add        ? 100 * 0x1p-24 * magnitude
                           : op == Alu::multiply ? 100 * 0x1p-23 * std::fabs(total)
                                                 : 0;
      CHECK(std::fabs(static_cast<double>(totals[p]) - total) <= bound);
    }
  }
  // The result may lie in dst.
  test.core.vector.tensor_scalar_reduce(dst, a, Alu::multiply, 0.0f, Alu::add, dst.columns(1, 2));
  CHECK(test.values(dst)[1] == 0);
}

TEST_CASE("tensor_reduce folds the last dimensions", "[unit][neuroncore]") {
  for (const nc::ReduceOrder order : {nc::ReduceOrder::lanes, nc::ReduceOrder::ascending}) {
    TestCore test({.reduce_order = order});
    const std::vector<float> x = steps(2 * 120, 4, 1, 7);
    const Tile cube = test.tile(DType::fp16, 2, x).reshape({4, 5, 6});
    for (std::size_t dimensions = 1; dimensions <= 3; ++dimensions) {
      const std::size_t folded = dimensions == 1 ? 6 : dimensions == 2 ? 30 : 120;
      const Tile dst = test.core.sbuf.tile(DType::fp32, 2, 120 / folded);
      for (const Alu op : {Alu::add, Alu::maximum, Alu::minimum, Alu::logical_and, Alu::logical_or,
                           Alu::logical_xor}) {
        test.core.vector.tensor_reduce(dst, cube, op, dimensions, true);
        const std::vector<float> values = test.values(dst);
        for (std::size_t i = 0; i < values.size(); ++i) {
          float total = x[i * folded];
          for (std::size_t j = 1; j < folded; ++j) total = alu(op, total, x[i * folded + j]);
          CHECK(values[i] == -total);
        }
      }
    }
  }
  TestCore test;
  const Tile numbers =
      test.integers(1, std::vector<std::int32_t>{0x7000000F, 0x700000F1, 0x70000F03, 6, 5, 4});
  const Tile dst = test.core.sbuf.tile(DType::int32, 1, 2);
  test.core.vector.tensor_reduce(dst, numbers.reshape({2, 3}), Alu::bitwise_and);
  CHECK(test.integers_of(dst) == std::vector<std::int32_t>{0x70000001, 4});
  test.core.vector.tensor_reduce(dst, numbers.reshape({2, 3}), Alu::bitwise_or);
  CHECK(test.integers_of(dst) == std::vector<std::int32_t>{0x70000FFF, 7});
  // A logical operator yields 0 or 1 also for a single element.
  const Tile ones = test.tile(DType::fp32, 1, std::vector<float>{5, 0, std::nanf("")});
  const Tile results = test.core.sbuf.tile(DType::fp32, 1, 3);
  for (const Alu op : {Alu::logical_and, Alu::logical_or, Alu::logical_xor}) {
    test.core.vector.tensor_reduce(results, ones.reshape({3, 1}), op);
    CHECK(test.values(results) == std::vector<float>{1, 0, 1});
  }
}

TEST_CASE("bn_aggr of bn_stats is mean and variance", "[unit][neuroncore]") {
  TestCore test;
  const Tile stats = test.core.sbuf.tile(DType::fp32, 1, 12),
             dst = test.core.sbuf.tile(DType::fp32, 1, 2);
  for (std::size_t n = 1; n <= 512; n += n < 20 ? 1 : 41) {
    nc::Core::Scope scope(test.core);
    std::vector<float> x = steps(2 * n, 1, 0x1p-10f, n);
    for (float& value : x) value += 3;
    const Tile data = test.tile(DType::fp32, 1, x);
    // One tile, and one in two parts.
    test.core.vector.bn_stats(stats.columns(0, 6), data.columns(0, n));
    test.core.vector.bn_stats(stats.columns(6, 12), data.columns(n, 2 * n));
    for (const std::size_t parts : {1u, 2u}) {
      test.core.vector.bn_aggr(dst, stats.columns(0, 6 * parts));
      double mean = 0, variance = 0;
      const auto count = static_cast<double>(parts * n);
      for (std::size_t i = 0; i < parts * n; ++i) mean += static_cast<double>(x[i]) / count;
      for (std::size_t i = 0; i < parts * n; ++i)
        variance += (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean) / count;
      const std::vector<float> values = test.values(dst);
      // Sums of n terms round n times; the mean is near 3.
      CHECK(std::fabs(static_cast<double>(values[0]) - mean) <= count * 0x1p-24 * 4);
      CHECK(std::fabs(static_cast<double>(values[1]) - variance) <=
            count * 0x1p-23 * (variance + 0x1p-20));
    }
    const std::vector<float> six = test.values(stats.columns(0, 6));
    CHECK(six[0] == static_cast<float>((n + 1) / 2));
    CHECK(six[3] == static_cast<float>(n / 2));
  }
}

TEST_CASE("reciprocal is correctly rounded; memset fills every type", "[unit][neuroncore]") {
  TestCore test;
  const std::vector<float> x = finite_floats(512);
  const Tile src = test.tile(DType::fp32, 2, x), dst = test.core.sbuf.tile(DType::fp32, 2, 256);
  test.core.vector.reciprocal(dst, src);
  const std::vector<float> y = test.values(dst);
  for (std::size_t i = 0; i < x.size(); ++i)
    REQUIRE(std::memcmp(&y[i], &(const float&)(1 / x[i]), 4) == 0);
  for (const DType dtype : soma::dtypes)
    if (test.core.machine().has(dtype)) {
      const Tile tile = test.core.sbuf.tile(dtype, 128, 5);
      test.core.vector.memset(tile, 1.0f);
      CHECK(test.values(tile) == std::vector<float>(640, 1.0f));
    }
}

TEST_CASE("operands may lie in PSUM, not both", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  const Tile a = core.psum.tile(128, 512), b = core.sbuf.tile(DType::bf16, 128, 512);
  core.vector.memset(a, 2).memset(b, 3).tensor_tensor(a, a, b, Alu::multiply);
  CHECK(test.values(a) == std::vector<float>(128 * 512, 6.0f));
  CHECK(id_of([&] { core.vector.tensor_tensor(b, a, a, Alu::multiply); }) ==
        "neuroncore.rule_broken");
}
