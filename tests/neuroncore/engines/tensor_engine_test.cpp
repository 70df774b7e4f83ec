// The Tensor engine: products against a loop in double, in every pair of types and every order of
// addition; transposes.

#include "neuroncore/test_core.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace soma_test;
using nc::Accumulate;
using nc::SumOrder;
using nc::Tile;
using soma::DType;

namespace {

constexpr SumOrder orders[] = {SumOrder::ascending, SumOrder::pairwise, SumOrder::wide};

bool is_wide(DType dtype) { return dtype == DType::fp32 || dtype == DType::tf32; }

struct Product {
  std::vector<double> sums, magnitudes;  // sums of a b, and of |a b|
};
// stationary [K, M], moving [K, N].
Product product(const std::vector<float>& a, const std::vector<float>& b, std::size_t k) {
  const std::size_t m = a.size() / k, n = b.size() / k;
  Product result{std::vector<double>(m * n), std::vector<double>(m * n)};
  for (std::size_t p = 0; p < k; ++p)
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        const double term = static_cast<double>(a[p * m + i]) * static_cast<double>(b[p * n + j]);
        result.sums[i * n + j] += term;
        result.magnitudes[i * n + j] += std::fabs(term);
      }
  return result;
}

std::vector<float> matmul(TestCore& test, DType a_type, const std::vector<float>& a, DType b_type,
                          const std::vector<float>& b, std::size_t k) {
  nc::Core::Scope scope(test.core);
  const Tile stationary = test.tile(a_type, k, a), moving = test.tile(b_type, k, b);
  const Tile sums = test.core.psum.tile(a.size() / k, b.size() / k);
  test.core.tensor.matmul(sums, stationary, moving);
  return test.values(sums);
}

// Multiples of 2^-24 within +-1: every type rounds them.
std::vector<float> in(DType dtype, std::vector<float> values) {
  for (float& value : values) value = through(dtype, value);
  return values;
}

}  // namespace

TEST_CASE("products of small integers are exact in every pair of types", "[unit][neuroncore]") {
  for (const DType a_type : tile_floats)
    for (const DType b_type : tile_floats) {
      INFO(to_string(a_type) << " and " << to_string(b_type));
      TestCore test;
      const std::vector<float> a = steps(64 * 40, 3, 1, 1), b = steps(64 * 77, 3, 1, 2);
      if (is_wide(a_type) != is_wide(b_type)) {
        CHECK(id_of([&] { matmul(test, a_type, a, b_type, b, 64); }) == "neuroncore.rule_broken");
        continue;
      }
      const Product expected = product(a, b, 64);
      for (const SumOrder order : orders) {
        TestCore ordered({.sum_order = order});
        const std::vector<float> sums = matmul(ordered, a_type, a, b_type, b, 64);
        bool exact = true;
        for (std::size_t i = 0; i < sums.size(); ++i)
          exact = exact && static_cast<double>(sums[i]) == expected.sums[i];
        CHECK(exact);
      }
    }
}

TEST_CASE("sums are within K 2^-24 of the magnitudes", "[unit][neuroncore]") {
  struct Shape {
    std::size_t k, m, n;
  };
  for (const DType dtype : tile_floats)
    for (const Shape& shape :
         {Shape{1, 1, 1}, Shape{1, 5, 9}, Shape{128, 128, 512}, Shape{17, 6, 31}, Shape{100, 7, 33},
          Shape{128, 1, 512}, Shape{128, 128, 1}})
      for (const SumOrder order : orders) {
        INFO(to_string(dtype) << " " << shape.k << " " << shape.m << " " << shape.n);
        if (shape.k * shape.m * shape.n > 1 << 20 && order != SumOrder::ascending &&
            dtype != DType::bf16)
          continue;
        TestCore test({.sum_order = order});
        const std::vector<float> a = in(dtype, steps(shape.k * shape.m, 1, 0x1p-23f, 3));
        const std::vector<float> b = in(dtype, steps(shape.k * shape.n, 1, 0x1p-23f, 4));
        const Product expected = product(a, b, shape.k);
        const std::vector<float> sums = matmul(test, dtype, a, dtype, b, shape.k);
        REQUIRE(sums.size() == shape.m * shape.n);
        // In double one rounding is left; else K - 1 additions and K products round.
        const double roundings = order == SumOrder::wide ? 1 : static_cast<double>(shape.k);
        bool good = true;
        for (std::size_t i = 0; i < sums.size(); ++i)
          good = good && std::fabs(static_cast<double>(sums[i]) - expected.sums[i]) <=
                             roundings * 0x1p-24 * expected.magnitudes[i] * (1 + 0x1p-20);
        CHECK(good);
      }
}

TEST_CASE("the three orders of addition are what they say", "[unit][neuroncore]") {
  const std::size_t k = 101;
  const std::vector<float> a = steps(k, 1, 0x1p-23f, 5), b = steps(k, 1, 0x1p-23f, 6);
  const auto sum = [&](SumOrder order) {
    TestCore test({.sum_order = order});
    return matmul(test, DType::fp32, a, DType::fp32, b, k)[0];
  };
  float ascending = 0;
  std::vector<float> level;
  double wide = 0;
  for (std::size_t i = 0; i < k; ++i) {
    ascending = std::fma(a[i], b[i], ascending);
    level.push_back(a[i] * b[i]);
    wide += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  }
  while (level.size() > 1) {
    std::vector<float> next;
    for (std::size_t i = 0; i < level.size(); i += 2)
      next.push_back(i + 1 < level.size() ? level[i] + level[i + 1] : level[i]);
    level = next;
  }
  CHECK(sum(SumOrder::ascending) == ascending);
  CHECK(sum(SumOrder::pairwise) == level[0]);
  CHECK(sum(SumOrder::wide) == static_cast<float>(wide));
}

TEST_CASE("PSUM adds in fp32, one matmul at a time", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  const std::size_t k = 128, n = 20;
  const std::vector<float> w = in(DType::bf16, steps(k * 9, 1, 0x1p-8f, 1));
  const Tile stationary = test.tile(DType::bf16, k, w), sums = core.psum.tile(9, n);
  std::vector<float> expected(9 * n);
  for (std::uint64_t step = 0; step < 5; ++step) {
    const std::vector<float> x = in(DType::fp8_e4m3, steps(k * n, 1, 0x1p-8f, 10 + step));
    core.tensor.matmul(sums, stationary, test.tile(DType::fp8_e4m3, k, x),
                       step == 0 ? Accumulate::no : Accumulate::yes);
    const std::vector<float> part = matmul(test, DType::bf16, w, DType::fp8_e4m3, x, k);
    for (std::size_t i = 0; i < part.size(); ++i)
      expected[i] = step == 0 ? part[i] : expected[i] + part[i];
  }
  CHECK(test.values(sums) == expected);
}

TEST_CASE("free dimensions of operands are flattened", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  const std::size_t k = 32;
  const std::vector<float> w = steps(k * 24, 8, 1, 1), x = steps(k * 60, 8, 1, 2);
  const Tile stationary = test.tile(DType::bf16, k, w).reshape({2, 3, 4}).swap(0, 2);
  const Tile moving = test.tile(DType::bf16, k, x).reshape({3, 2, 10}).slice(1, 1, 2);
  const Tile sums = core.psum.tile(24, 90);
  core.vector.memset(sums, 0);
  const Tile dst = sums.reshape({3, 30}).columns(0, 30, 3);
  core.tensor.matmul(dst, stationary, moving);
  const std::vector<float> values = test.values(dst);
  for (std::size_t i = 0; i < 24; ++i)
    for (std::size_t j = 0; j < 30; ++j) {
      const std::size_t column = i % 2 * 12 + i / 2 % 3 * 4 + i / 6;
      float expected = 0;
      for (std::size_t p = 0; p < k; ++p)
        expected += w[p * 24 + column] * x[p * 60 + j / 10 * 20 + 10 + j % 10];
      REQUIRE(values[i * 30 + j] == expected);
    }
  CHECK(test.values(sums)[1] == 0);
}

TEST_CASE("a biased cFP8 operand is a scaled one", "[unit][neuroncore]") {
  for (const DType dtype : {DType::fp8_e3m4, DType::fp8_e4m3, DType::fp8_e5m2}) {
    TestCore test;
    const std::vector<float> a = steps(16 * 8, 3, 1, 1), b = steps(16 * 8, 3, 1, 2);
    const Tile w = test.tile(dtype, 16, a), x = test.tile(dtype, 16, b);
    const Tile plain = test.core.psum.tile(8, 8), scaled = test.core.psum.tile(8, 8);
    test.core.tensor.matmul(plain, w, x);
    const int own = soma::format_of(dtype).bias;
    test.core.tensor.matmul(scaled, w.with_bias(own + 4), x.with_bias(own - 1));
    const std::vector<float> p = test.values(plain), s = test.values(scaled);
    for (std::size_t i = 0; i < p.size(); ++i) CHECK(s[i] == p[i] / 8);
  }
}

TEST_CASE("other uses of the array: sums over partitions, broadcasts, permutations",
          "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  const std::vector<float> x = steps(128 * 10, 50, 1, 1);
  const Tile data = test.tile(DType::fp32, 128, x);
  const Tile ones = core.sbuf.tile(DType::fp32, 128, 128);
  core.vector.memset(ones, 1);
  const Tile sum = core.psum.tile(1, 10), same = core.psum.tile(128, 10);
  core.tensor.matmul(sum, ones.columns(0, 1), data);
  core.tensor.matmul(same, ones.rows(64, 65), data.rows(64, 65));
  std::vector<float> expected(10);
  for (std::size_t i = 0; i < x.size(); ++i) expected[i % 10] += x[i];
  CHECK(test.values(sum) == expected);
  for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(test.values(same)[i] == x[640 + i % 10]);
}

TEST_CASE("transposes are exact in every type, but for the sign of zero", "[unit][neuroncore]") {
  for (const DType dtype : tile_floats)
    for (const auto& [rows, columns] :
         {std::pair<std::size_t, std::size_t>{128, 128}, {1, 128}, {128, 1}, {32, 100}, {96, 3}}) {
      INFO(to_string(dtype) << " " << rows << " x " << columns);
      TestCore test;
      std::vector<float> values = small_floats(dtype, rows * columns);
      values[0] = -0.0f;
      const Tile src = test.tile(dtype, rows, values),
                 dst = test.core.psum.tile(columns, rows, dtype);
      test.core.tensor.transpose(dst, src);
      const std::vector<float> held = test.values(src), turned = test.values(dst);
      for (std::size_t p = 0; p < rows; ++p)
        for (std::size_t i = 0; i < columns; ++i)
          REQUIRE(turned[i * rows + p] == held[p * columns + i]);
      CHECK(!std::signbit(turned[0]));
    }
}

TEST_CASE("an array of another size transposes as much as it holds", "[unit][neuroncore]") {
  nc::Machine machine = nc::trn1();
  machine.partitions = 256;
  for (const std::size_t held : {128, 256}) {
    machine.matmul_stationary_free = held;
    TestCore test({}, 1, {}, machine);
    const Tile src = test.core.sbuf.tile(DType::bf16, 256, 8),
               dst = test.core.psum.tile(8, 256, DType::bf16);
    test.core.vector.memset(src, 3);
    if (held == 128) {
      CHECK_THAT(message_of([&] { test.core.tensor.transpose(dst, src); }),
                 contains(") is 256 partitions, wanted at most 128"));
    } else {
      test.core.tensor.transpose(dst, src);
      CHECK(test.values(dst) == std::vector<float>(8 * 256, 3));
    }
  }
}

TEST_CASE("products are exact on every target before they are added", "[unit][neuroncore]") {
  const float e = 0x1p-13f;
  auto any = soma::make_context();
  for (const soma::Target& target : any.targets().targets) {
    INFO(std::string(target.name));
    TestCore test({}, 1, target.name);
    const Tile a = test.tile(DType::fp32, 2, std::vector<float>{1, 1 + e}),
               b = test.tile(DType::fp32, 2, std::vector<float>{-1, 1 + e});
    const Tile sum = test.core.psum.tile(1, 1);
    test.core.tensor.matmul(sum, a, b);
    CHECK(test.values(sum)[0] == 2 * e + e * e);
  }
}

TEST_CASE("one infinity spoils the rest of its row of a transpose", "[unit][neuroncore]") {
  TestCore test;
  std::vector<float> values = counting(32 * 8);
  values[5 * 8 + 3] = std::numeric_limits<float>::infinity();
  const Tile src = test.tile(DType::fp32, 32, values), dst = test.core.psum.tile(8, 32);
  test.core.tensor.transpose(dst, src);
  const std::vector<float> turned = test.values(dst);
  for (std::size_t i = 0; i < 8; ++i)
    for (std::size_t p = 0; p < 32; ++p)
      if (i == 3 && p != 5)
        CHECK(std::isnan(turned[i * 32 + p]));
      else
        CHECK(turned[i * 32 + p] == values[p * 8 + i]);
  // The Vector engine moves bits.
  const Tile moved = test.core.sbuf.tile(DType::fp32, 8, 32);
  test.core.vector.transpose(moved, src);
  const std::vector<float> exact = test.values(moved);
  for (std::size_t i = 0; i < 256; ++i) CHECK(exact[i] == values[i % 32 * 8 + i / 32]);
}
