// Matrix products of fp32 numbers that are split into bf16 ones for tiles.

#include <soma/kernels/gemm/multiply.hpp>

#include "kernels/gemm/gemm_call.hpp"
#include "support/table.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

std::vector<float> split_product(const Context& context, GemmArgs args) {
  std::vector<float> c(args.m * args.n, std::numeric_limits<float>::quiet_NaN());
  args.fp32_products = Fp32Products::split_tiles;
  args.c = plain_target(c, args.n);
  multiply(context, args);
  return c;
}

// The very bits, and those of an element alone.
void check_split_product(const Product& product) {
  std::vector<float> wanted;  // takes longer than all targets, and a CPU may have none
  on_every_target_with_tiles([&](const Context& context) {
    if (wanted.empty()) wanted = product.sums<float>(reference::SplitTileSums());
    INFO(product.m << " x " << product.n << ", k " << product.k);
    CHECK(same_bits(split_product(context, product.args()), wanted));
    for (const std::size_t i : {std::size_t{0}, product.m - 1})
      for (const std::size_t j : {std::size_t{0}, product.n - 1})
        REQUIRE(same_bits(split_product(context, detail::part(product.args(), i, 1, j, 1)),
                          std::vector{wanted[i * product.n + j]}));
  });
}

}  // namespace

static void split_shapes(Table table) {
  for (const Layout a : layouts)
    for (const Layout b : layouts)
      for (const std::size_t k :
           entries<std::size_t>(table, {1, 17, 39}, {1, 2, 15, 16, 17, 32, 39, 64})) {
        INFO("layouts " << static_cast<int>(a) << " and " << static_cast<int>(b));
        check_split_product(random_product(17, 45, k, {}, a, b));
      }
  // Whole tiles and parts of them; few rows, whose columns of b are read where they lie.
  for (const std::size_t m :
       entries<std::size_t>(table, {1, 16, 17, 33, 65}, {1, 15, 16, 17, 32, 33, 49, 64, 65}))
    for (const std::size_t n :
         entries<std::size_t>(table, {1, 31, 64, 100}, {1, 16, 31, 33, 63, 64, 65, 100}))
      check_split_product(random_product(m, n, 71, {}, Layout::contiguous, Layout::transposed));
  // More rows, columns, steps and segments than are packed together.
  check_split_product(random_product(70, 1100, 39, {}, Layout::contiguous, Layout::contiguous));
  check_split_product(random_product(17, 33, 5001, {}, Layout::contiguous, Layout::transposed));
  check_split_product(random_product(60, 35, 801, {0, 3, 3, 10, 415, 416, 500, 501, 801},
                                     Layout::transposed, Layout::contiguous));
  if (table == Table::part) return;
  for (const std::size_t m : {5u, 40u})
    check_split_product(random_product(m, 600, 2001, {}, Layout::contiguous, Layout::transposed));
  check_split_product(random_product(150, 530, 401, {}, Layout::contiguous, Layout::transposed));
  check_split_product(random_product(70, 1100, 801, {}, Layout::contiguous, Layout::contiguous));
  check_split_product(random_product(40, 70, 5001, {}, Layout::contiguous, Layout::transposed));
  check_split_product(random_product(60, 70, 801, {0, 3, 3, 10, 415, 416, 500, 501, 801},
                                     Layout::transposed, Layout::contiguous));
  check_split_product(random_product(40, 70, 6001,
                                     {0, 2101, 2101, 2101, 2101, 2900, 3900, 4900, 6001},
                                     Layout::transposed, Layout::contiguous));
  std::vector<std::size_t> bounds;
  for (std::size_t i = 0; i <= 64; ++i) bounds.push_back(100 * i);
  check_split_product(
      random_product(17, 33, bounds.back(), bounds, Layout::transposed, Layout::contiguous));
}

TEST_CASE("split numbers: products of every shape and layout", "[unit][gemm]") {
  split_shapes(Table::part);
}
TEST_CASE("split numbers: products of every shape and layout: all", "[slow][gemm]") {
  split_shapes(Table::whole);
}

static void split_types(Table table) {
  for (const DType type : {DType::bf16, DType::fp16, DType::fp8_e4m3, DType::int8, DType::uint8})
    for (const Layout layout : {Layout::contiguous, Layout::transposed, Layout::every_other}) {
      INFO(to_string(type) << " " << static_cast<int>(layout));
      const std::size_t k = table == Table::whole ? 411 : 107;
      check_split_product(random_product(33, 140, k, {}, layout, layout, type, DType::fp32));
      if (table == Table::part && layout != Layout::transposed) continue;
      check_split_product(random_product(17, 70, 230, {}, layout, layout, DType::fp32, type));
    }
}

TEST_CASE("split numbers: operands of every type", "[unit][gemm]") { split_types(Table::part); }
TEST_CASE("split numbers: operands of every type: all", "[slow][gemm]") {
  split_types(Table::whole);
}

// Each step of 32 joins the sum in six parts, whose two chains of 16 products have 15 roundings and
// whose sum has one. Parts are at most (1 + 2^-7)^2 + 2^-14 + 2^-15 < 1.017 of the product of
// magnitudes, and what is left out 2^-22 of it, so (k / 5 + 27) 2^-24 bounds the error where
// nothing is subnormal. A chain of multiply-adds has k 2^-24.
TEST_CASE("split numbers: products are within their bound", "[unit][gemm]") {
  for (const std::size_t k : {1u, 32u, 768u, 3072u}) {
    // Magnitudes over 2^20, and all bits of the significands.
    const auto wide = [](std::size_t rows, std::size_t columns, std::uint64_t seed) {
      return store_matrix(rows, columns, DType::fp32, Layout::contiguous,
                          [random = RandomFloats(seed)]() mutable {
                            const float x = random();
                            return std::ldexp(random(), static_cast<int>(std::fmod(x * 64, 10.0f)));
                          });
    };
    const Product product(20, 40, k, {}, wide(20, k, 3), wide(k, 40, 4));
    Product magnitudes = product;
    for (float& x : magnitudes.a.values) x = std::fabs(x);
    for (float& x : magnitudes.b.values) x = std::fabs(x);
    const std::vector<double> wanted = product.sums<double>(), all = magnitudes.sums<double>();
    on_every_target_with_tiles([&](const Context& context) {
      const std::vector<float> c = split_product(context, product.args());
      for (std::size_t i = 0; i < c.size(); ++i)
        REQUIRE(std::fabs(c[i] - wanted[i]) <=
                (static_cast<double>(k) / 5 + 27) * 0x1p-24 * all[i]);
    });
  }
}

// Six roundings of the sum in 32 steps instead of 32: 0.43 of the chain's root mean square error
// where all are independent, and a little more, since the sums of 16 products are rounded, too. Of
// 8,192 results that figure is known to 1 %.
TEST_CASE("split numbers: the usual error is less than half of the chain's", "[unit][gemm]") {
  for (const std::size_t k : {32u, 128u, 768u, 3072u}) {
    const auto normal = [](std::size_t rows, std::size_t columns, std::uint64_t seed) {
      return store_matrix(rows, columns, DType::fp32, Layout::contiguous,
                          [random = RandomFloats(seed)]() mutable {
                            float sum = 0;
                            for (int i = 0; i < 12; ++i) sum += random();
                            return sum;
                          });
    };
    const Product product(64, 128, k, {}, normal(64, k, 5), normal(k, 128, 6));
    const std::vector<double> wanted = product.sums<double>();
    const auto error_of = [&](const std::vector<float>& sums) {
      double squares = 0;
      for (std::size_t i = 0; i < sums.size(); ++i)
        squares += (sums[i] - wanted[i]) * (sums[i] - wanted[i]);
      return std::sqrt(squares / static_cast<double>(sums.size()));
    };
    const double chain = error_of(product.sums<float>());
    on_every_target_with_tiles([&](const Context& context) {
      const double split = error_of(split_product(context, product.args()));
      INFO("k " << k << ": " << split / chain << " of the chain's error");
      CHECK(split < 0.5 * chain);
    });
  }
}

TEST_CASE("split numbers: a product with one is the number itself", "[unit][gemm]") {
  const std::vector<float> numbers{1,
                                   -0.0f,
                                   0x1.fffffep+0f,
                                   0x1.010101p-100f,
                                   0x1.8p-126f,
                                   0x1.7f7f7ep+3f,
                                   -0x1.ff8ffep-9f,
                                   0x1.fffffep+127f,
                                   -0x1.fffffep+127f};
  const auto at = [&](std::size_t i) { return numbers[i % numbers.size()]; };
  const std::size_t m = 40, k = 40;
  const Product product(
      m, k, k, {},
      store_matrix(m, k, DType::fp32, Layout::contiguous,
                   [&, i = std::size_t{0}]() mutable { return at(i++); }),
      store_matrix(k, k, DType::fp32, Layout::contiguous,
                   [&, i = std::size_t{0}]() mutable { return i++ % (k + 1) == 0 ? 1.0f : 0.0f; }));
  on_every_target_with_tiles([&](const Context& context) {
    const std::vector<float> c = split_product(context, product.args());
    for (std::size_t i = 0; i < c.size(); ++i) REQUIRE(c[i] == product.a.values[i]);
  });
}

TEST_CASE("split numbers: what is not finite stays so, subnormal numbers count as zero",
          "[unit][gemm]") {
  const float specials[] = {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(),
                            std::bit_cast<float>(0x7F800001u), std::bit_cast<float>(0xFFFFFFFFu)};
  for (const float special : specials)
    for (const bool in_a : {true, false})
      for (const float other : {1.5f, 0.0f}) {
        const auto matrix = [&](std::size_t rows, std::size_t columns, bool has, std::size_t row,
                                std::size_t column) {
          return store_matrix(rows, columns, DType::fp32, Layout::contiguous,
                              [=, i = std::size_t{0}]() mutable {
                                const bool here = i / columns == row && i % columns == column;
                                ++i;
                                return has && here ? special : other;
                              });
        };
        const Product product(17, 20, 50, {}, matrix(17, 50, in_a, 3, 37),
                              matrix(50, 20, !in_a, 37, 3));
        on_every_target_with_tiles([&](const Context& context) {
          const std::vector<float> c = split_product(context, product.args());
          for (std::size_t i = 0; i < c.size(); ++i)
            REQUIRE(std::isfinite(c[i]) == ((in_a ? i / 20 : i % 20) != 3));
        });
      }
  const Product tiny(3, 4, 5, {},
                     store_matrix(3, 5, DType::fp32, Layout::contiguous, [] { return 0x1p-127f; }),
                     store_matrix(5, 4, DType::fp32, Layout::contiguous, [] { return 0x1p100f; }));
  on_every_target_with_tiles([&](const Context& context) {
    CHECK(split_product(context, tiny.args()) == std::vector<float>(12, 0.0f));
  });
}

TEST_CASE("split numbers: results in bf16 are the sums, rounded once", "[unit][gemm]") {
  const std::size_t m = 45, n = 96;
  const Product product = random_product(m, n, 300, {}, Layout::contiguous, Layout::transposed);
  const std::vector<float> bias = RandomFloats(9).many(n);
  on_every_target_with_tiles([&](const Context& context) {
    GemmArgs args = product.args();
    args.fp32_products = Fp32Products::split_tiles;
    args.epilogue.bias = bias.data();
    std::vector<std::uint16_t> c(m * n);
    args.c = {.data = c.data(), .dtype = DType::bf16, .row_stride = n};
    multiply(context, args);
    const std::vector<float> sums = split_product(context, product.args());
    for (std::size_t i = 0; i < c.size(); ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(sums[i] + bias[i % n]);
      REQUIRE(c[i] == (bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    }
  });
}
