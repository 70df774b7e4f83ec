// Matrix products by the bf16 instructions of this CPU: the dot product, and tiles.

#include <soma/kernels/gemm/multiply.hpp>

#include "kernels/gemm/gemm_call.hpp"
#include "support/table.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

using namespace soma;
using namespace soma_test;

namespace {

// Both count subnormal inputs and results as zero. The dot instruction may round once for two
// products, so it has only a bound; tiles are defined to the bit.
void check_bf16_product(const Product& product) {
  const std::vector<double> wanted = product.sums<double>();
  std::vector<double> bounds = product.bounds_of_error();
  double lost = 0x1p-126;  // the largest loss of a result, or of an input times the other
  for (const auto* values : {&product.a.values, &product.b.values})
    for (const float x : *values)
      if (std::isfinite(x)) lost = (std::max)(lost, 0x1p-126 * static_cast<double>(std::fabs(x)));
  for (double& bound : bounds) bound += static_cast<double>(2 * product.k) * lost;
  const bool scaled = product.a.operand.scale != 1 || product.b.operand.scale != 1;
  const std::vector<float> in_tiles = product.sums<float>(reference::TileSums());
  on_every_bf16_target([&](const Context& context, Bf16Products products) {
    std::vector<float> c(product.m * product.n, std::numeric_limits<float>::quiet_NaN());
    GemmArgs args = product.args();
    args.bf16_products = products;
    args.c = plain_target(c, product.n);
    multiply(context, args);
    for (std::size_t i = 0; i < c.size(); ++i)
      if (std::isfinite(wanted[i])) REQUIRE(std::fabs(c[i] - wanted[i]) <= bounds[i]);
    if (products == Bf16Products::tiles && !scaled) CHECK(same_bits(c, in_tiles));

    // One row and one column at a time: the same bits.
    std::vector<float> cut(c.size());
    for (const std::size_t i : {std::size_t{0}, product.m - 1})
      for (const std::size_t j : {std::size_t{0}, product.n - 1}) {
        args = detail::part(product.args(), i, 1, j, 1);
        args.bf16_products = products;
        args.c = {.data = &cut[0], .row_stride = 1};
        multiply(context, args);
        REQUIRE(same_bits(std::vector{cut[0]}, std::vector{c[i * product.n + j]}));
      }
  });
}

}  // namespace

static void bf16_products(Table table) {
  for (const Layout a : layouts)
    for (const Layout b : layouts)
      for (const std::size_t k : {1u, 2u, 7u, 8u, 39u, 64u}) {
        INFO("layouts " << static_cast<int>(a) << " and " << static_cast<int>(b) << ", k " << k);
        check_bf16_product(random_product(17, 45, k, {}, a, b, DType::bf16, DType::bf16));
      }
  // Whole tiles and parts of them.
  for (const std::size_t m : {1u, 15u, 16u, 17u, 32u, 33u, 49u})
    for (const std::size_t n : {1u, 16u, 31u, 33u})
      check_bf16_product(random_product(m, n, 71, {}, Layout::contiguous, Layout::transposed,
                                        DType::bf16, DType::bf16));
  // Subnormal results, and inputs.
  const auto scaled = [](std::size_t rows, std::size_t columns, std::uint64_t seed, float factor) {
    return store_matrix(
        rows, columns, DType::bf16, Layout::contiguous,
        [random = RandomFloats(seed), factor]() mutable { return random() * factor; });
  };
  check_bf16_product(
      Product(17, 33, 40, {}, scaled(17, 40, 5, 0x1p-63f), scaled(40, 33, 6, 0x1p-63f)));
  for (const float other : {1.0f, 0x1p60f}) {
    check_bf16_product(
        Product(17, 33, 40, {}, scaled(17, 40, 5, 0x1p-127f), scaled(40, 33, 6, other)));
    check_bf16_product(
        Product(17, 33, 40, {}, scaled(17, 40, 5, other), scaled(40, 33, 6, 0x1p-127f)));
  }
  // More than a tile, more than a block of k, few rows, and segments that start and end anywhere.
  for (const std::size_t m : entries<std::size_t>(table, {9, 32}, {9, 16, 23, 32, 56}))
    check_bf16_product(random_product(m, table == Table::whole ? 600 : 100, 402, {},
                                      Layout::contiguous, Layout::transposed, DType::bf16,
                                      DType::bf16));
  check_bf16_product(random_product(60, 70, 801, {0, 3, 3, 10, 415, 416, 500, 501, 801},
                                    Layout::transposed, Layout::contiguous, DType::bf16,
                                    DType::bf16));
  if (table == Table::part) return;
  check_bf16_product(random_product(130, 530, 401, {}, Layout::contiguous, Layout::transposed,
                                    DType::bf16, DType::bf16));
  // More of k, of columns and of segments than is packed together.
  check_bf16_product(random_product(20, 1100, 2001, {}, Layout::contiguous, Layout::transposed,
                                    DType::bf16, DType::bf16));
  check_bf16_product(random_product(40, 70, 5001, {}, Layout::contiguous, Layout::transposed,
                                    DType::bf16, DType::bf16));
  check_bf16_product(
      random_product(40, 70, 6001, {0, 2101, 2101, 2101, 2101, 2900, 3900, 4900, 6001},
                     Layout::transposed, Layout::contiguous, DType::bf16, DType::bf16));
  // So long and many that sums of six neighbours wait for the last one.
  std::vector<std::size_t> bounds;
  for (std::size_t i = 0; i <= 64; ++i) bounds.push_back(800 * i);
  check_bf16_product(random_product(17, 33, bounds.back(), bounds, Layout::transposed,
                                    Layout::contiguous, DType::bf16, DType::bf16));
}

TEST_CASE("bf16 instructions: every shape and layout", "[unit][gemm]") {
  bf16_products(Table::part);
}
TEST_CASE("bf16 instructions: every shape and layout: all", "[slow][gemm]") {
  bf16_products(Table::whole);
}

TEST_CASE("bf16 instructions: types that are exact in bf16", "[unit][gemm]") {
  for (const DType type :
       {DType::fp8_e3m4, DType::fp8_e4m3, DType::fp8_e5m2, DType::int8, DType::uint8, DType::bf16})
    for (const Layout layout : {Layout::contiguous, Layout::transposed, Layout::every_other}) {
      INFO(to_string(type) << " " << static_cast<int>(layout));
      check_bf16_product(random_product(17, 40, 411, {}, layout, layout, type, DType::bf16));
      // b has more than one block that is transposed at once, and a rest.
      check_bf16_product(random_product(70, 45, 107, {}, layout, layout, DType::bf16, type));
      check_bf16_product(random_product(17, 40, 30, {}, layout, layout, type, type));
    }
  // Scales are multiplied behind the sum.
  StoredMatrix a = store_matrix(9, 30, DType::fp8_e4m3, Layout::contiguous, RandomFloats(3), 0.3f);
  StoredMatrix b = store_matrix(30, 11, DType::fp8_e5m2, Layout::transposed, RandomFloats(4), 1.7f);
  check_bf16_product(Product(9, 11, 30, {}, std::move(a), std::move(b)));
  // Operands that are not exact use widened products, and have their bits.
  const Product wide = random_product(9, 11, 30, {}, Layout::contiguous, Layout::transposed,
                                      DType::fp32, DType::bf16);
  on_every_bf16_target([&](const Context& context, Bf16Products products) {
    std::vector<float> c(99);
    GemmArgs args = wide.args();
    args.bf16_products = products;
    args.c = plain_target(c, 11);
    multiply(context, args);
    CHECK(same_bits(c, wide.sums<float>()));
  });
  // An operand's scale multiplies the sums of the product without it.
  const Product scaled(
      30, 600, 1100, {},
      store_matrix(30, 1100, DType::bf16, Layout::contiguous, RandomFloats(5), 0.3f),
      store_matrix(1100, 600, DType::bf16, Layout::contiguous, RandomFloats(6)));
  on_every_bf16_target([&](const Context& context, Bf16Products products) {
    std::vector<float> c(30 * 600), sums(c.size());
    GemmArgs args = scaled.args();
    args.bf16_products = products;
    args.c = plain_target(c, 600);
    multiply(context, args);
    args.a.scale = 1;
    args.c = plain_target(sums, 600);
    multiply(context, args);
    for (float& sum : sums) sum *= 0.3f;
    CHECK(same_bits(c, sums));
  });
}

// Rows of a whose pairs have a float's place are read where they lie, in whole blocks of rows, if
// they are spread over the first-level cache and no segment ends within a pair; by tiles, which
// take 32 numbers for a pair, where rows are whole cache lines. Other rows, and bytes as numbers,
// are laid behind one another for it, or packed. Columns in memory are always packed, and every sum
// is the same chain.
TEST_CASE("bf16 instructions: rows that are read where they lie have the bits of packed ones",
          "[unit][gemm]") {
  const std::size_t n = 70;
  // Behind a row, and before the first: they must not be used.
  constexpr std::uint16_t not_a_number = 0x7FC0;
  const auto check = [&](std::size_t m, std::size_t k, std::size_t stride, std::size_t offset,
                         std::vector<std::size_t> bounds) {
    INFO(m << " rows of " << k << ", " << stride << " apart, " << offset << " numbers before them");
    const Product packed = random_product(m, n, k, std::move(bounds), Layout::transposed,
                                          Layout::transposed, DType::bf16, DType::bf16);
    constexpr std::size_t line = 32;  // numbers of a cache line, where the rows begin
    std::vector<std::uint16_t> memory(line + offset + m * stride, not_a_number);
    const std::size_t in_line = reinterpret_cast<std::uintptr_t>(memory.data()) / 2 % line;
    std::uint16_t* const rows = memory.data() + (line - in_line) % line + offset;
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < k; ++j)
        rows[i * stride + j] = static_cast<std::uint16_t>(
            std::bit_cast<std::uint32_t>(packed.a.values[i * k + j]) >> 16);
    on_every_bf16_target([&](const Context& context, Bf16Products products) {
      std::vector<float> wanted(m * n), c(m * n);
      GemmArgs args = packed.args();
      args.bf16_products = products;
      args.c = plain_target(wanted, n);
      multiply(context, args);
      args.a = {.data = rows, .dtype = DType::bf16, .row_stride = stride};
      args.c = plain_target(c, n);
      multiply(context, args);
      CHECK(same_bits(c, wanted));
    });
  };
  for (const std::size_t m : {13u, 14u, 15u, 28u, 57u, 127u})
    for (const std::size_t k : {2u, 30u, 64u, 65u, 402u}) check(m, k, k + k % 2, 0, {});
  check(40, 64, 65, 0, {});    // no float's place for all rows
  check(40, 64, 70, 1, {});    // nor for the first
  check(40, 64, 70, 2, {});    // but here
  check(40, 64, 2048, 0, {});  // all in one set of the first-level cache
  check(40, 64, 2050, 0, {});  // so, too
  check(40, 64, 1024, 0, {});
  check(40, 300, 302, 0, {0, 100, 100, 202, 300});
  check(40, 300, 302, 0, {0, 101, 101, 201, 300});  // the third begins within a float's place
  check(40, 300, 302, 0, {0, 100, 203, 203, 300});
  check(40, 4400, 4402, 0, {});  // several blocks of k
  // Tiles read whole cache lines, of rows that share few sets of the first-level cache.
  for (const std::size_t m : {31u, 32u, 33u, 64u, 97u})
    for (const std::size_t k : {32u, 64u, 768u}) check(m, k, k, 0, {});
  check(70, 768, 768, 32, {});
  check(70, 768, 768, 16, {});  // but not these, nor of rows that begin within a line
  check(70, 768, 784, 0, {});
  for (const std::size_t lines : {33u, 34u, 36u, 40u, 48u, 64u, 128u})
    check(70, 1024, 32 * lines, 0, {});
  check(70, 320, 320, 0, {0, 96, 96, 224, 320});
  check(70, 320, 320, 0, {0, 96, 97, 224, 320});
  check(70, 3072, 3072, 0, {});
  check(70, 4608, 4608, 0, {0, 1536, 1568, 3104, 4608});
}

TEST_CASE("bf16 instructions: rows of bytes have the bits of packed columns", "[unit][gemm]") {
  const auto check = [](DType type, std::size_t m, std::size_t k, std::vector<std::size_t> bounds) {
    INFO(to_string(type) << ", " << m << " rows of " << k);
    const std::size_t n = 70;
    Product rows = random_product(m, n, k, std::move(bounds), Layout::contiguous,
                                  Layout::transposed, type, type);
    rows.a.operand.scale = 1;
    std::vector<std::byte> columns(m * k);
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < k; ++j) columns[j * m + i] = rows.a.bytes[i * k + j];
    on_every_bf16_target([&](const Context& context, Bf16Products products) {
      std::vector<float> wanted(m * n), c(m * n);
      GemmArgs args = rows.args();
      args.bf16_products = products;
      args.c = plain_target(c, n);
      multiply(context, args);
      args.a.data = columns.data();
      args.a.row_stride = 1;
      args.a.column_stride = m;
      args.c = plain_target(wanted, n);
      multiply(context, args);
      CHECK(same_bits(c, wanted));
    });
  };
  for (const DType type : {DType::fp8_e4m3, DType::fp8_e4m3fnuz, DType::int8, DType::uint8})
    for (const std::size_t m : {13u, 14u, 15u, 57u, 127u})
      for (const std::size_t k : {2u, 30u, 64u, 65u, 402u, 2048u}) check(type, m, k, {});
  check(DType::fp8_e5m2, 40, 300, {0, 100, 100, 202, 300});
  check(DType::fp8_e5m2, 40, 300, {0, 101, 300});
}

// a has all codes in its first column, which b multiplies by 1, and nothing in the others.
TEST_CASE("matrix products: every code of an 8-bit type", "[unit][gemm]") {
  constexpr std::size_t codes = 256;
  for (const DType type :
       {DType::fp8_e3m4, DType::fp8_e4m3, DType::fp8_e5m2, DType::fp8_e4m3fn, DType::fp8_e4m3fnuz,
        DType::fp8_e5m2fnuz, DType::e8m0, DType::int8, DType::uint8})
    for (const std::size_t k : {1u, 2u, 64u})
      for (const bool transposed : {false, true}) {
        INFO(to_string(type) << ", " << k << (transposed ? " columns" : " numbers a row"));
        std::vector<std::byte> a(codes * k);
        for (std::size_t code = 0; code < codes; ++code)
          a[transposed ? code : code * k] = static_cast<std::byte>(code);
        std::vector<float> one(k), c(codes);
        std::vector<std::uint16_t> b(k);
        b[0] = 0x3F80;
        one[0] = 1;
        GemmArgs args;
        args.m = codes, args.n = 1, args.k = k;
        args.a = {a.data(),
                  type,
                  transposed ? 1 : k,
                  transposed ? codes : 1,
                  1,
                  is_floating(type) ? 0 : 3};
        args.c = plain_target(c, 1);
        const auto check = [&](const Context& context, bool flushes) {
          multiply(context, args);
          for (std::uint32_t code = 0; code < codes; ++code) {
            INFO("code " << code);
            float wanted = static_cast<float>(type == DType::int8 ? static_cast<std::int8_t>(code)
                                                                  : static_cast<int>(code)) -
                           3;
            if (is_floating(type)) wanted = decode(format_of(type), code);
            if (flushes && std::fabs(wanted) < 0x1p-126f) wanted = 0;
            if (std::isnan(wanted))
              CHECK(std::isnan(c[code]));
            else
              CHECK(c[code] == wanted);
          }
        };
        args.b = {.data = one.data(), .row_stride = 1};
        on_every_target([&](const Context& context) { check(context, false); });
        args.b = {.data = b.data(), .dtype = DType::bf16, .row_stride = 1};
        on_every_bf16_target([&](const Context& context, Bf16Products products) {
          args.bf16_products = products;
          check(context, true);
        });
      }
}
