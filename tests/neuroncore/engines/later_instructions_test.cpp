// Instructions of NeuronCore-v3 and v4, and machines that do not have them.

#include "neuroncore/test_core.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

using namespace soma_test;
using nc::Alu;
using nc::Tile;
using soma::DType;

namespace {

constexpr float lowest = std::numeric_limits<float>::lowest();

struct V3 : TestCore {
  V3() : TestCore({}, 1, {}, nc::trn2()) {}
};
struct V4 : TestCore {
  V4() : TestCore({}, 1, {}, nc::trn3()) {}
};

}  // namespace

TEST_CASE("an instruction that a machine does not have names the first generation with it",
          "[unit][neuroncore]") {
  for (const nc::Machine& machine : nc::machines) {
    TestCore test({}, 1, {}, machine);
    nc::Core& core = test.core;
    const Tile x = core.sbuf.tile(DType::bf16, 32, 8), column = core.sbuf.tile(DType::fp32, 32, 1);
    const Tile whole = core.sbuf.tile(DType::int32, 32, 9),
               code = core.sbuf.tile(DType::uint8, 32, 8);
    const Tile fp8 = core.sbuf.tile(DType::fp8_e5m2, 32, 8), sums = core.psum.tile(2, 2);
    const Tile fp32 = core.sbuf.tile(DType::fp32, 32, 8);
    core.vector.memset(x, 1).memset(column, 1).memset(code, 127).memset(fp8, 1).memset(fp32, 1);
    const auto check = [&](std::string_view name, std::size_t first, const auto& run) {
      INFO(std::string(name) << " on " << std::string(machine.name));
      if (machine.generation >= first) {
        CHECK_NOTHROW(run());
        return;
      }
      const std::string wanted = std::string(name) + " on " + std::string(machine.name) +
                                 ", wanted NeuronCore-v" + std::to_string(first) +
                                 " [neuroncore.generation]";
      CHECK_THAT(message_of(run), contains(wanted.c_str()));
    };
    const Tile packs = fp8.packed4(), scales = code.columns(0, 2);
    check("range_select", 3,
          [&] { core.vector.range_select(x, x, Alu::greater_equal, column, Alu::less, column); });
    check("nonzero_with_count", 3, [&] { core.gpsimd.nonzero_with_count(whole, fp32); });
    const Tile rows = fp8.reshape({2, 4}).slice(1, 0, 2);
    check("matmul_double_row", 3, [&] { core.tensor.matmul_double_row(sums, rows, rows); });
    check("matmul_mx", 4, [&] { core.tensor.matmul_mx(sums, packs, packs, scales, scales); });
    check("quantize_mx", 4, [&] { core.vector.quantize_mx(packs, x, scales); });
    check("exponential", 4, [&] { core.vector.exponential(x, x); });
    check("activate2", 4, [&] { core.scalar.activate2(x, x, nc::Function::copy); });
    check("rand2", 4, [&] { core.vector.rand2(x, 0, 1, {}); });
  }
}

TEST_CASE("double rows multiply twice the contraction", "[unit][neuroncore]") {
  V3 test;
  constexpr std::size_t k = 96, m = 5, n = 7;
  const std::vector<float> a = steps(k * 2 * m, 4, 0.5f, 1), b = steps(k * 2 * n, 2, 0.25f, 2);
  const Tile w = test.tile(DType::fp8_e4m3, k, a).reshape({2, m}),
             x = test.tile(DType::fp8_e5m2, k, b).reshape({2, n});
  const Tile sums = test.core.psum.tile(m, n);
  test.core.tensor.matmul_double_row(sums, w, x).matmul_double_row(sums, w, x, nc::Accumulate::yes);
  const std::vector<float> given = test.values(sums);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::size_t p = 0; p < k; ++p)
        for (std::size_t r = 0; r < 2; ++r)
          sum += 2 * double{through(DType::fp8_e4m3, a[(p * 2 + r) * m + i])} *
                 double{through(DType::fp8_e5m2, b[(p * 2 + r) * n + j])};
      CHECK(double{given[i * n + j]} == sum);  // multiples of 1/8: exact
    }
  CHECK(id_of([&] {
          test.core.tensor.matmul_double_row(sums, w, x.reshape({1, 14}));
        }) == "neuroncore.rule_broken");
  const Tile e3 = test.tile(DType::fp8_e3m4, k, a).reshape({2, m});
  CHECK(id_of([&] { test.core.tensor.matmul_double_row(sums, e3, x); }) ==
        "neuroncore.rule_broken");
  // From v4 on e4m3fn, but not beside e4m3.
  V4 later;
  const Tile fn = later.tile(DType::fp8_e4m3fn, k, a).reshape({2, m}),
             old = later.tile(DType::fp8_e4m3, k, b).reshape({2, n}),
             e5 = later.tile(DType::fp8_e5m2, k, b).reshape({2, n});
  const Tile out = later.core.psum.tile(m, n);
  CHECK_NOTHROW(later.core.tensor.matmul_double_row(out, fn, e5));
  CHECK(id_of([&] { later.core.tensor.matmul_double_row(out, fn, old); }) == "neuroncore.rule");
}

TEST_CASE("range_select keeps the elements between two bounds", "[unit][neuroncore]") {
  V3 test;
  const std::vector<float> values = steps(3 * 40, 8, 0.125f, 3);
  const Tile x = test.tile(DType::fp32, 3, values), dst = test.core.sbuf.tile(DType::fp32, 3, 40);
  const std::vector<float> from{5, -1, 30}, to{11, 20, 100};
  const Tile low = test.tile(DType::fp32, 3, from), high = test.tile(DType::fp32, 3, to);
  const Tile largest = test.core.sbuf.tile(DType::fp32, 3, 1);
  test.core.vector.range_select(dst, x, Alu::greater_equal, low, Alu::less, high, 2, &largest);
  const std::vector<float> given = test.values(dst), most = test.values(largest);
  for (std::size_t p = 0; p < 3; ++p) {
    float expected = lowest;
    for (std::size_t i = 0; i < 40; ++i) {
      const float number = static_cast<float>(i + 2);
      const bool inside = number >= from[p] && number < to[p];
      CHECK(given[p * 40 + i] == (inside ? values[p * 40 + i] : lowest));
      if (inside) expected = std::max(expected, values[p * 40 + i]);
    }
    CHECK(most[p] == expected);
  }
  const auto id = [&](Alu op, std::int32_t first) {
    return id_of([&] { test.core.vector.range_select(dst, x, op, low, Alu::less, high, first); });
  };
  CHECK(id(Alu::not_equal, 0) == "neuroncore.rule_broken");
  CHECK(id(Alu::equal, 1 << 24) == "neuroncore.rule_broken");
  CHECK(id(Alu::equal, (1 << 24) - 40) == "no error");
}

TEST_CASE("nonzero_with_count lists elements in every sixteenth partition", "[unit][neuroncore]") {
  V3 test;
  std::vector<float> values(128 * 8);
  const std::size_t places[] = {1, 2, 5};
  for (const std::size_t i : places) values[16 * 8 + i] = -0.5f;
  values[16 * 8 + 7] = -0.0f;
  values[17 * 8 + 7] = 1;
  const Tile x = test.tile(DType::fp32, 128, values);
  const Tile dst = test.core.sbuf.tile(DType::int32, 128, 9);
  test.core.vector.memset(dst, 77);
  test.core.gpsimd.nonzero_with_count(dst, x, 16, -1);
  const std::vector<std::int32_t> given = test.integers_of(dst);
  const std::vector<std::int32_t> wanted{17, 18, 21, -1, -1, -1, -1, -1, 3};
  CHECK(std::equal(wanted.begin(), wanted.end(), given.begin() + 16 * 9));
  CHECK(given[0] == -1);
  CHECK(given[8] == 0);
  CHECK(std::all_of(given.begin() + 17 * 9, given.begin() + 32 * 9,
                    [](std::int32_t value) { return value == 77; }));
  const Tile integers = test.integers(128, std::vector<std::int32_t>(128 * 8, -3));
  test.core.gpsimd.nonzero_with_count(dst, integers, 0, 0);
  CHECK(test.integers_of(dst)[112 * 9 + 8] == 8);
  CHECK(id_of([&] { test.core.gpsimd.nonzero_with_count(dst.columns(0, 8), x); }) ==
        "neuroncore.rule_broken");
}

TEST_CASE("exponential subtracts, and sums before rounding", "[unit][neuroncore]") {
  V4 test;
  const std::vector<float> values = steps(4 * 33, 6, 0.25f, 5);
  const Tile x = test.tile(DType::bf16, 4, values), dst = test.core.sbuf.tile(DType::bf16, 4, 33);
  const std::vector<float> largest{6, 5, 0, -2};
  const Tile column = test.tile(DType::fp32, 4, largest);
  const Tile sums = test.core.sbuf.tile(DType::fp32, 4, 1);
  test.core.vector.exponential(dst, x, column, &sums);
  const std::vector<float> given = test.values(dst), total = test.values(sums);
  for (std::size_t p = 0; p < 4; ++p) {
    double sum = 0;
    for (std::size_t i = 0; i < 33; ++i) {
      const double wanted = std::exp(double{values[p * 33 + i]} - double{largest[p]});
      CHECK(std::fabs(double{given[p * 33 + i]} - wanted) <= wanted * 0x1.01p-8);
      sum += wanted;
    }
    CHECK(std::fabs(double{total[p]} - sum) <= sum * 40 * 0x1p-24);
  }
  test.core.vector.exponential(dst, x, 2.0f);
  CHECK(std::fabs(double{test.values(dst)[0]} - std::exp(double{values[0]} - 2)) <=
        std::exp(double{values[0]} - 2) * 0x1.01p-8);
}

TEST_CASE("activate2 has its operators, reversed or not, and its reductions",
          "[unit][neuroncore]") {
  V4 test;
  const std::vector<float> values{-3, 1, 2, -0.5f};
  const Tile x = test.tile(DType::fp32, 1, values), dst = test.core.sbuf.tile(DType::fp32, 1, 4);
  const Tile result = test.core.sbuf.tile(DType::fp32, 1, 1);
  const auto run = [&](nc::Activate2Options options) {
    test.core.scalar.activate2(dst, x, nc::Function::copy, options);
    return test.values(dst);
  };
  using V = std::vector<float>;
  CHECK(run({}) == values);
  CHECK(run({.op0 = Alu::multiply, .op1 = Alu::subtract, .operand0 = 2, .operand1 = 1}) ==
        V{-7, 1, 3, -2});
  CHECK(run({.op0 = Alu::multiply,
             .op1 = Alu::subtract,
             .operand0 = 2,
             .operand1 = 1,
             .reverse1 = true}) == V{7, -1, -3, 2});
  CHECK(run({.op0 = Alu::subtract, .operand0 = 1, .reverse0 = true}) == V{4, 0, -1, 1.5f});
  const Tile three = test.tile(DType::fp32, 1, V{3});
  CHECK(run({.op0 = Alu::add, .operand0 = three}) == V{0, 4, 5, 2.5f});
  const auto folded = [&](nc::Fold fold, nc::Reduce reduce) {
    run({.fold = fold, .reduce = reduce, .reduce_result = &result});
    return test.values(result)[0];
  };
  CHECK(folded(nc::Fold::add, nc::Reduce::reset_reduce) == -0.5f);
  CHECK(folded(nc::Fold::add, nc::Reduce::reduce) == -1);
  CHECK(folded(nc::Fold::maximum, nc::Reduce::reset_reduce) == 2);
  CHECK(folded(nc::Fold::minimum, nc::Reduce::reset_reduce) == -3);
  CHECK(folded(nc::Fold::absolute_maximum, nc::Reduce::reset_reduce) == 3);
  CHECK(folded(nc::Fold::absolute_minimum, nc::Reduce::reset_reduce) == 0.5f);
  CHECK(folded(nc::Fold::absolute_minimum, nc::Reduce::reset) == HUGE_VALF);
  CHECK(id_of([&] { run({.op0 = Alu::add, .op1 = Alu::add}); }) == "neuroncore.rule_broken");
  CHECK(id_of([&] { run({.reverse0 = true}); }) == "neuroncore.rule_broken");
}

TEST_CASE("rand2 draws from low to below high, by position", "[unit][neuroncore]") {
  V4 test;
  const Tile dst = test.core.sbuf.tile(DType::fp32, 4, 4096);
  const nc::DrawPosition position{.draw = {.seed = 3}, .partition_step = 4096};
  test.core.vector.rand2(dst, -2, 6, position);
  const std::vector<float> values = test.values(dst);
  double mean = 0, square = 0;
  for (const float value : values) {
    CHECK((value >= -2 && value < 6));
    mean += double{value} / static_cast<double>(values.size());
    square += double{value} * double{value} / static_cast<double>(values.size());
  }
  // Standard deviations: 8 / sqrt(12 n) of the mean.
  CHECK(std::fabs(mean - 2) < 5 * 8 / std::sqrt(12.0 * 16384));
  CHECK(std::fabs(square - mean * mean - 64.0 / 12) < 0.15);
  const Tile part = test.core.sbuf.tile(DType::fp32, 1, 4096);
  nc::DrawPosition second = position;
  second.draw.index = 4096;
  test.core.vector.rand2(part, -2, 6, second);
  CHECK(std::equal(values.begin() + 4096, values.begin() + 8192, test.values(part).begin()));
  CHECK(id_of([&] { test.core.vector.rand2(dst, 1, 1, {}); }) == "neuroncore.rule_broken");
}
