// The GpSimd engine: index patterns, gathers, moves between partitions, exact integers.

#include "neuroncore/test_core.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using namespace soma_test;
using nc::Alu;
using nc::Tile;
using soma::DType;

namespace {

std::int32_t word(std::uint64_t seed, std::size_t i) {
  return static_cast<std::int32_t>(soma::random_word({.seed = seed}, i));
}
std::vector<std::int32_t> words(std::size_t count, std::uint64_t seed) {
  std::vector<std::int32_t> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = word(seed, i);
  return values;
}

}  // namespace

TEST_CASE("iota counts in int32 and casts", "[unit][neuroncore]") {
  TestCore test;
  const nc::Affine affine{
      .loops = {{1000, 2}, {-10, 3}, {7, 2}, {1, 5}}, .offset = -3, .channel_multiplier = 11};
  std::vector<std::int32_t> expected;
  for (std::int32_t p = 0; p < 4; ++p)
    for (std::int32_t a = 0; a < 2; ++a)
      for (std::int32_t b = 0; b < 3; ++b)
        for (std::int32_t c = 0; c < 2; ++c)
          for (std::int32_t d = 0; d < 5; ++d)
            expected.push_back(-3 + 11 * p + 1000 * a - 10 * b + 7 * c + d);
  const Tile integers = test.core.sbuf.tile(DType::int32, 4, 60);
  test.core.gpsimd.iota(integers, affine);
  CHECK(test.integers_of(integers) == expected);
  for (const DType dtype : {DType::fp32, DType::bf16, DType::int8, DType::uint8}) {
    const Tile tile = test.core.sbuf.tile(dtype, 4, 60);
    test.core.gpsimd.iota(tile, affine);
    const std::vector<float> values = test.values(tile);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto exact = static_cast<float>(expected[i]);
      CHECK(values[i] == (soma::is_floating(dtype) ? through(dtype, exact)
                          : dtype == DType::int8   ? std::clamp(exact, -128.0f, 127.0f)
                                                   : std::clamp(exact, 0.0f, 255.0f)));
    }
  }
  // Above 2^24 only int32 keeps all bits; sums wrap around.
  const Tile large = test.core.sbuf.tile(DType::int32, 2, 2),
             rounded = test.core.sbuf.tile(DType::fp32, 2, 2);
  const nc::Affine steep{.loops = {{1, 2}}, .offset = 2147483647, .channel_multiplier = -5};
  test.core.gpsimd.iota(large, steep).iota(rounded, steep);
  CHECK(test.integers_of(large) ==
        std::vector<std::int32_t>{2147483647, -2147483647 - 1, 2147483642, 2147483643});
  CHECK(test.values(rounded)[0] == 2147483648.0f);
}

TEST_CASE("affine_select draws causal masks and others", "[unit][neuroncore]") {
  TestCore test;
  const std::vector<float> x = steps(32 * 32, 8, 0x1p-4f, 1);
  for (const DType out : {DType::fp32, DType::bf16}) {
    const Tile data = test.tile(DType::fp32, 32, x), dst = test.core.sbuf.tile(out, 32, 32);
    for (const auto& [compare, keeps] : std::vector<std::pair<Alu, bool (*)(int)>>{
             {Alu::equal, [](int v) { return v == 0; }},
             {Alu::not_equal, [](int v) { return v != 0; }},
             {Alu::greater_equal, [](int v) { return v >= 0; }},
             {Alu::greater, [](int v) { return v > 0; }},
             {Alu::less_equal, [](int v) { return v <= 0; }},
             {Alu::less, [](int v) { return v < 0; }}}) {
      // query - key
      test.core.gpsimd.affine_select(dst, data, {.loops = {{-1, 32}}, .channel_multiplier = 1},
                                     -9984, compare);
      const std::vector<float> values = test.values(dst);
      for (int query = 0; query < 32; ++query)
        for (int key = 0; key < 32; ++key) {
          const auto i = static_cast<std::size_t>(query * 32 + key);
          REQUIRE(values[i] == through(out, keeps(query - key) ? x[i] : -9984));
        }
    }
  }
  // With one type, elements keep bits that fp32 does not have.
  const Tile integers = test.integers(1, std::vector<std::int32_t>{16777217, 16777219});
  test.core.gpsimd.affine_select(integers, integers, {.loops = {{1, 2}}}, 5);
  CHECK(test.integers_of(integers) == std::vector<std::int32_t>{16777217, 5});
}

TEST_CASE("local_gather reads its indices with the partition varying fastest",
          "[unit][neuroncore]") {
  for (const std::size_t piece : {1u, 2u, 4u, 8u, 16u, 32u})
    for (const std::size_t rows : {16u, 32u, 128u})
      for (const DType dtype : {DType::fp32, DType::bf16, DType::uint8}) {
        TestCore test;
        const std::size_t columns = 96, pieces = 37;
        const Tile src = test.core.sbuf.tile(dtype, rows, columns);
        test.core.gpsimd.iota(src, {.loops = {{1, columns}}, .channel_multiplier = 1});
        const std::vector<float> from = test.values(src);
        std::vector<std::int32_t> at = words(rows * 3, piece);
        for (std::int32_t& index : at)
          index =
              static_cast<std::int32_t>(static_cast<std::uint32_t>(index) % (columns - piece + 1));
        const Tile dst = test.core.sbuf.tile(dtype, rows, pieces * piece);
        test.core.gpsimd.local_gather(dst, src, test.integers(rows, at), pieces, piece);
        const std::vector<float> values = test.values(dst);
        bool good = true;
        for (std::size_t p = 0; p < rows; ++p)
          for (std::size_t i = 0; i < pieces; ++i)
            for (std::size_t j = 0; j < piece; ++j) {
              const auto index = at[(p / 16 * 16 + i % 16) * 3 + i / 16];
              good = good && values[p * pieces * piece + i * piece + j] ==
                                 from[p * columns + static_cast<std::size_t>(index) + j];
            }
        CHECK(good);
      }
}

TEST_CASE("n_gather picks elements of each partition", "[unit][neuroncore]") {
  TestCore test;
  const std::vector<std::int32_t> x = words(8 * 40, 1);
  std::vector<std::int32_t> at = words(8 * 100, 2);
  for (std::int32_t& index : at)
    index = static_cast<std::int32_t>(static_cast<std::uint32_t>(index) % 40);
  const Tile src = test.integers(8, x), dst = test.core.sbuf.tile(DType::int32, 8, 100);
  const Tile indices = test.integers(8, at);
  test.core.gpsimd.n_gather(dst, src.reshape({4, 10}), indices);
  const std::vector<std::int32_t> found = test.integers_of(dst);
  for (std::size_t i = 0; i < at.size(); ++i)
    CHECK(found[i] == x[i / 100 * 40 + static_cast<std::size_t>(at[i])]);
  for (const std::int32_t outside : {-1, 40}) {
    at[150] = outside;
    test.put_integers(indices, at);
    CHECK_THAT(message_of([&] { test.core.gpsimd.n_gather(dst, src, indices); }),
               contains(outside < 0 ? ") is -1, wanted" : ") is 40, wanted"));
  }
}

TEST_CASE("partition_reduce and partition_broadcast", "[unit][neuroncore]") {
  TestCore test;
  for (const std::size_t rows : {1u, 7u, 32u, 128u}) {
    nc::Core::Scope scope(test.core);
    const std::vector<float> x = steps(rows * 9, 8, 0x1p-20f, rows);
    const Tile data = test.tile(DType::fp32, rows, x), dst = test.core.sbuf.tile(DType::fp32, 1, 9);
    const Tile all = test.core.sbuf.tile(DType::fp32, rows, 9);
    for (const Alu op : {Alu::add, Alu::maximum}) {
      test.core.gpsimd.partition_reduce(dst, data, op).partition_broadcast(all, dst);
      const std::vector<float> values = test.values(all);
      for (std::size_t i = 0; i < 9; ++i) {
        float total = x[i];
        for (std::size_t p = 1; p < rows; ++p)
          total = op == Alu::add ? total + x[p * 9 + i] : std::fmax(total, x[p * 9 + i]);
        for (std::size_t p = 0; p < rows; ++p) CHECK(values[p * 9 + i] == total);
      }
    }
    const std::vector<std::int32_t> y = words(rows * 9, rows);
    const Tile numbers = test.integers(rows, y), one = test.core.sbuf.tile(DType::int32, 1, 9);
    for (const Alu op : {Alu::add, Alu::maximum, Alu::bitwise_or, Alu::bitwise_and}) {
      test.core.gpsimd.partition_reduce(one, numbers, op);
      const std::vector<std::int32_t> values = test.integers_of(one);
      for (std::size_t i = 0; i < 9; ++i) {
        auto total = static_cast<std::uint32_t>(y[i]);
        for (std::size_t p = 1; p < rows; ++p) {
          const auto next = static_cast<std::uint32_t>(y[p * 9 + i]);
          total = op == Alu::add ? total + next
                  : op == Alu::maximum
                      ? (y[p * 9 + i] > static_cast<std::int32_t>(total) ? next : total)
                  : op == Alu::bitwise_or ? total | next
                                          : total & next;
        }
        CHECK(static_cast<std::uint32_t>(values[i]) == total);
      }
    }
  }
}

TEST_CASE("sequence_bounds as in the vendor's example", "[unit][neuroncore]") {
  TestCore test;
  const std::vector<float> ids{0, 1, 1, 2, 2, 2, 0, 3, 3};
  const std::vector<float> expected{9, 1, 1, 3, 3, 3, 9, 7, 7, -1, 3, 3, 6, 6, 6, -1, 9, 9};
  for (const DType dtype : {DType::fp32, DType::int32}) {
    const Tile tile = test.core.sbuf.tile(dtype, 1, 9), dst = test.core.sbuf.tile(dtype, 1, 18);
    test.core.vector.copy(tile, test.tile(DType::fp32, 1, ids));
    test.core.gpsimd.sequence_bounds(dst, tile);
    CHECK(test.values(dst) == expected);
  }
  const Tile one = test.tile(DType::fp32, 1, std::vector<float>{4}),
             two = test.core.sbuf.tile(DType::fp32, 1, 2);
  test.core.gpsimd.sequence_bounds(two, one);
  CHECK(test.values(two) == std::vector<float>{0, 1});
}

TEST_CASE("int32 arithmetic is exact and wraps around", "[unit][neuroncore]") {
  TestCore test;
  const std::vector<std::int32_t> x = words(500, 1), y = words(500, 2);
  const Tile a = test.integers(4, x), b = test.integers(4, y),
             dst = test.core.sbuf.tile(DType::int32, 4, 125);
  for (const Alu op : {Alu::add, Alu::subtract, Alu::multiply}) {
    test.core.gpsimd.tensor_tensor(dst, a, b, op);
    const std::vector<std::int32_t> values = test.integers_of(dst);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::int64_t left = x[i], right = y[i];
      const std::int64_t wide = op == Alu::add        ? left + right
                                : op == Alu::subtract ? left - right
                                                      : left * right;
      CHECK(values[i] == static_cast<std::int32_t>(static_cast<std::uint32_t>(wide)));
    }
  }
  // The Vector engine does it in fp32.
  test.core.vector.tensor_tensor(dst, a, b, Alu::add);
  CHECK(test.integers_of(dst)[0] != static_cast<std::int32_t>(static_cast<std::uint32_t>(x[0]) +
                                                              static_cast<std::uint32_t>(y[0])));
  // Mixed with fp32, this engine too.
  const Tile wide = test.tile(DType::fp32, 1, std::vector<float>{0.5f});
  const Tile one = test.integers(1, std::vector<std::int32_t>{16777217}),
             sum = test.core.sbuf.tile(DType::fp32, 1, 1);
  test.core.gpsimd.tensor_tensor(sum, one, wide, Alu::add);
  CHECK(test.values(sum)[0] == 16777216.0f);
}

TEST_CASE("power and rsqrt are rounded once from double", "[unit][neuroncore]") {
  TestCore test;
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> base, exponent;
  for (const float b : {0.0f, -0.0f, 0.3f, 1.0f, 2.0f, 7.5f, -0.3f, -1.0f, -2.0f, -7.5f, infinity,
                        -infinity, 1e30f, 1e-40f})
    for (const float e : {0.0f, 1.0f, 2.0f, 3.0f, -1.0f, -2.0f, -3.0f, 0.5f, -0.5f, 1.7f, 30.0f,
                          infinity, -infinity, 1e10f}) {
      base.push_back(b);
      exponent.push_back(e);
    }
  const Tile a = test.tile(DType::fp32, 1, base), b = test.tile(DType::fp32, 1, exponent);
  const Tile dst = test.core.sbuf.tile(DType::fp32, 1, base.size());
  test.core.gpsimd.tensor_tensor(dst, a, b, Alu::power);
  const std::vector<float> powers = test.values(dst);
  for (std::size_t i = 0; i < base.size(); ++i) {
    const auto wanted = static_cast<float>(
        std::pow(static_cast<double>(base[i]), static_cast<double>(exponent[i])));
    INFO(base[i] << " to the " << exponent[i] << ": " << powers[i] << ", wanted " << wanted);
    CHECK(((std::isnan(wanted) && std::isnan(powers[i])) ||
           (powers[i] == wanted && std::signbit(powers[i]) == std::signbit(wanted))));
  }
  test.core.gpsimd.tensor_scalar(dst, a, Alu::rsqrt);
  const std::vector<float> roots = test.values(dst);
  for (std::size_t i = 0; i < base.size(); ++i) {
    const auto wanted = static_cast<float>(1 / std::sqrt(static_cast<double>(base[i])));
    CHECK((roots[i] == wanted || (std::isnan(roots[i]) && std::isnan(wanted))));
  }
}

TEST_CASE("copies and fills", "[unit][neuroncore]") {
  TestCore test;
  const Tile src = test.core.sbuf.tile(DType::fp32, 128, 6),
             dst = test.core.sbuf.tile(DType::fp8_e5m2, 128, 6);
  test.core.gpsimd.memset(src, 1.3f).copy(dst, src);
  CHECK(test.values(dst) == std::vector<float>(768, 1.25f));
}
