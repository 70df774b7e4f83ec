// Products with a chosen accumulator, against its definition in numeric/quantizer.hpp as plain
// scalar code.

#include <soma/kernels/gemm/multiply.hpp>
#include <soma/numeric/codec.hpp>

#include "kernels/gemm/gemm_call.hpp"
#include "support/floating_dtypes.hpp"

#include <limits>
#include <utility>

using namespace soma;
using namespace soma_test;

namespace {

// fp32's exponents in 22 bits, as some hardware adds 8-bit products.
constexpr FloatFormat e8m13{.exponent_bits = 8, .mantissa_bits = 13, .bias = 127};
// fp32 by another name: nothing is lost, yet it is not the hardware's.
constexpr FloatFormat wide = formats::fp32.with(Overflow::infinity);

constexpr FloatFormat accumulators[] = {formats::bf16, formats::fp16, formats::tf32, e8m13};

float sum_of_segment(const Product& product, std::size_t row, std::size_t column, std::size_t first,
                     std::size_t end, const Accumulation& how) {
  const auto join = [&](float sum, std::size_t l) {
    return std::fma(product.a.values[row * product.k + l], product.b.values[l * product.n + column],
                    sum);
  };
  const auto running = [&](std::size_t from, std::size_t to) {
    float sum = 0;
    for (std::size_t at = from; at < to; at += how.chunk) {
      for (std::size_t l = at; l < to && l - at < how.chunk; ++l) sum = join(sum, l);
      sum = decode(how.format, encode(how.format, sum));
    }
    return sum;
  };
  if (how.promote == 0) return running(first, end);
  float total = 0;
  for (std::size_t at = first; at < end; at += how.promote)
    total += running(at, (std::min)(at + how.promote, end));
  return total;
}

std::vector<float> reference_sums(const Product& product, const Accumulation& how) {
  std::vector<float> c;
  for (std::size_t i = 0; i < product.m; ++i)
    for (std::size_t j = 0; j < product.n; ++j) {
      std::vector<float> sums;
      for (std::size_t s = 0; s + 1 < product.bounds.size(); ++s)
        sums.push_back(
            sum_of_segment(product, i, j, product.bounds[s], product.bounds[s + 1], how));
      c.push_back(reference::meet_in_pairs(std::move(sums)));
    }
  return c;
}

std::vector<float> product_of(const Context& context, const Product& product,
                              const Accumulation& how) {
  std::vector<float> c(product.m * product.n, std::numeric_limits<float>::quiet_NaN());
  GemmArgs args = product.args();
  args.accumulation = how;
  args.c = plain_target(c, product.n);
  multiply(context, args);
  return c;
}

// bf16 operands: their products are exact in fp32, see Products.
Product narrow_product(std::size_t m, std::size_t n, std::size_t k,
                       std::vector<std::size_t> bounds = {}, Layout a = Layout::contiguous,
                       Layout b = Layout::contiguous) {
  return random_product(m, n, k, std::move(bounds), a, b, DType::bf16, DType::bf16);
}

// exact: fp32 holds each product of two elements, so the bits are the same without fused
// multiply-add.
enum class Products { exact, rounded };

void check_product(const Product& product, const Accumulation& how,
                   Products products = Products::exact) {
  INFO(to_string(how.format) << ", chunk " << how.chunk << ", promote " << how.promote);
  const std::vector<float> wanted = reference_sums(product, how);
  on_every_target([&](const Context& context) {
    if (products == Products::exact || context.target().fused_multiply_add)
      CHECK(same_bits(product_of(context, product, how), wanted));
  });
}

// One row times one column, of a value each.
Product constant_product(std::size_t k, float a, float b) {
  return Product(1, 1, k, {},
                 store_matrix(1, k, DType::fp32, Layout::contiguous, [=] { return a; }),
                 store_matrix(k, 1, DType::fp32, Layout::contiguous, [=] { return b; }));
}

float sum_of(const Context& context, const Product& product, const Accumulation& how) {
  return product_of(context, product, how)[0];
}

}  // namespace

TEST_CASE("every accumulator, chunk and promotion", "[unit][gemm][accumulation]") {
  // k ends within chunks, within promotions and within what is packed at a time.
  const Product product = narrow_product(17, 45, 301);
  const Product segments = narrow_product(15, 33, 301, {0, 40, 40, 257, 301});
  for (const FloatFormat& format : accumulators)
    for (const std::size_t chunk : {1u, 4u, 32u, 128u})
      for (const std::size_t promote : {0u, 32u, 128u}) {
        check_product(product, {format, chunk, promote});
        check_product(segments, {format, chunk, promote});
      }
  // Neither is a multiple of the other, and both are longer than the sum.
  check_product(product, {formats::bf16, 5, 33});
  check_product(product, {formats::bf16, 200, 3});
  check_product(product, {formats::bf16, 1000, 0});
  check_product(product, {formats::bf16, 7, 1000});
  check_product(product, {formats::bf16, std::size_t{1} << 32, std::size_t{1} << 32});
}

TEST_CASE("every shape, and tiles in both directions", "[unit][gemm][accumulation]") {
  for (const std::size_t m : {1u, 14u, 29u})
    for (const std::size_t n : {1u, 32u, 67u})
      for (const std::size_t k : {0u, 1u, 128u, 129u}) {
        INFO(m << " x " << n << ", k " << k);
        check_product(narrow_product(m, n, k), {formats::bf16, 3, 50});
      }
  check_product(narrow_product(130, 530, 201), {formats::tf32, 4, 0});
  check_product(narrow_product(130, 530, 24, {0, 3, 3, 10, 11, 20, 20, 21, 24}),
                {formats::bf16, 2, 4});
}

TEST_CASE("segments of an accumulator meet in the fixed tree", "[unit][gemm][accumulation]") {
  for (const std::vector<std::size_t>& bounds :
       {std::vector<std::size_t>{0, 150, 300},
        {0, 0, 300},
        {0, 300, 300},
        {0, 0, 0, 1, 300},
        {0, 0, 0, 100, 100, 300, 300, 300, 300},
        {0, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200, 220, 240, 260, 280, 290, 300}})
    for (const std::size_t promote : {0u, 32u})
      check_product(narrow_product(9, 37, 300, bounds, Layout::transposed),
                    {formats::bf16, 4, promote});
  // -0 of a segment stays, unless something joins it.
  const Product tiny = constant_product(1, -0x1p-100f, 0x1p-100f);
  Product before_nothing = tiny;
  before_nothing.bounds = {0, 1, 1};
  for (const std::size_t promote : {0u, 1u}) {
    check_product(tiny, {formats::bf16, 1, promote}, Products::rounded);
    check_product(before_nothing, {formats::bf16, 1, promote}, Products::rounded);
  }
}

TEST_CASE("an fp32 accumulator is the fast kernel, bit by bit", "[unit][gemm][accumulation]") {
  const Product product = random_product(67, 150, 430, {0, 100, 130, 200, 430}, Layout::transposed);
  const Product few_rows = random_product(5, 77, 193, {}, Layout::contiguous, Layout::transposed);
  on_every_target([&](const Context& context) {
    for (const Product* each : {&product, &few_rows}) {
      const std::vector<float> fast = product_of(context, *each, {});
      // Whatever chunk and promote are, and where the accumulator of studies has as many bits.
      CHECK(same_bits(product_of(context, *each, {formats::fp32, 7, 9}), fast));
      CHECK(same_bits(product_of(context, *each, {wide, 1, 0}), fast));
      CHECK(same_bits(product_of(context, *each, {wide, 32, 0}), fast));
      CHECK_FALSE(same_bits(product_of(context, *each, {wide, 1, 32}), fast));
    }
  });
}

TEST_CASE("a chosen accumulator takes operands of every type and layout",
          "[unit][gemm][accumulation]") {
  std::vector<DType> types(std::begin(floating_dtypes), std::end(floating_dtypes));
  types.push_back(DType::int8);
  types.push_back(DType::uint8);
  const Accumulation how{formats::bf16, 4, 64};
  const auto check = [&](const Product& product) {
    check_product(product, how, Products::rounded);
  };
  for (const DType type : types)
    for (const Layout layout : {Layout::contiguous, Layout::transposed, Layout::every_other}) {
      INFO(to_string(type) << " " << static_cast<int>(layout));
      check(random_product(17, 40, 210, {}, layout, layout, type, DType::fp32));
      check(random_product(17, 40, 210, {}, layout, layout, DType::bf16, type));
    }
  for (const Layout a : layouts)
    for (const Layout b : layouts) check(random_product(18, 45, 23, {}, a, b));
  check(Product(9, 11, 30, {},
                store_matrix(9, 30, DType::fp8_e4m3, Layout::contiguous, RandomFloats(3), 0.3f),
                store_matrix(30, 11, DType::fp32, Layout::transposed, RandomFloats(4), 1.7f)));
}

TEST_CASE("bf16 products of an accumulator are widened", "[unit][gemm][accumulation]") {
  const Product product = narrow_product(17, 45, 100);
  const Accumulation how{formats::bf16, 1, 0};
  on_every_target([&](const Context& context) {
    std::vector<float> c(product.m * product.n);
    GemmArgs args = product.args();
    args.accumulation = how;
    args.bf16_products = Bf16Products::dot_instruction;
    args.c = plain_target(c, product.n);
    multiply(context, args);
    CHECK(same_bits(c, product_of(context, product, how)));
  });
}

TEST_CASE("accumulators at the ends of their range", "[unit][gemm][accumulation]") {
  const FloatFormat finite{
      .exponent_bits = 5, .mantissa_bits = 6, .bias = 15, .specials = Specials::none};
  const FloatFormat flushed{
      .exponent_bits = 5, .mantissa_bits = 8, .bias = 15, .subnormals = Subnormals::flushed};
  const FloatFormat deep{.exponent_bits = 7, .mantissa_bits = 2, .bias = 147};
  for (const FloatFormat& format :
       {formats::bf16, formats::fp16, e8m13, formats::bf16.with(Overflow::saturate),
        formats::bf16.with(Overflow::nan), wide, formats::fp32.with(Overflow::saturate),
        formats::fp16.with(Overflow::saturate), formats::fp8_e4m3fn, formats::fp8_e5m2fnuz, finite,
        flushed, deep})
    for (const std::size_t promote : {0u, 3u}) {
      const Accumulation how{format, 2, promote};
      for (const float sign : {-1.0f, 1.0f}) {
        // Overflow, subnormals of the format and of fp32, infinity, NaN, and what cancels.
        check_product(constant_product(9, sign * 0x1p20f, 0x1p106f), how);
        check_product(constant_product(9, sign * 0x1.8p8f, 0x1.1p7f), how);
        check_product(constant_product(9, sign * 0x1.5p-13f, 0x1.3p-4f), how);
        check_product(constant_product(9, sign * 0x1.5p-70f, 0x1.3p-66f), how);
        check_product(constant_product(9, sign * 0x1.5p-75f, 0x1.3p-70f), how, Products::rounded);
        check_product(constant_product(9, sign * std::numeric_limits<float>::infinity(), 2), how);
      }
      check_product(constant_product(9, std::numeric_limits<float>::quiet_NaN(), 2), how);
      check_product(constant_product(9, std::numeric_limits<float>::infinity(), 0), how);
      check_product(constant_product(9, -0.0f, 1), how);
    }
}

TEST_CASE("an accumulator's sums leave by the same steps", "[unit][gemm][accumulation]") {
  const std::size_t m = 17, n = 70;
  const Product product = narrow_product(m, n, 140);
  const Accumulation how{formats::bf16, 4, 32};
  const std::vector<float> sums = reference_sums(product, how), old = RandomFloats(3).many(m * n),
                           bias = RandomFloats(4).many(n), more = RandomFloats(5).many(m * n);
  on_every_target([&](const Context& context) {
    std::vector<float> c = old, pre_activation(m * n);
    float amax = 0;
    GemmArgs args = product.args();
    args.accumulation = how;
    args.c = plain_target(c, n);
    args.epilogue = {.accumulate = true, .bias = bias.data()};
    args.epilogue.pre_activation = plain_target(pre_activation, n);
    args.epilogue.activation = Activation::relu;
    args.epilogue.residual = plain(more, n);
    args.epilogue.amax = &amax;
    multiply(context, args);
    std::vector<float> wanted, wanted_before;
    float largest = 0;
    for (std::size_t i = 0; i < m * n; ++i) {
      wanted_before.push_back(sums[i] + old[i] + bias[i % n]);
      wanted.push_back((std::max)(wanted_before[i], 0.0f) + more[i]);
      largest = (std::max)(largest, std::fabs(wanted[i]));
    }
    CHECK(same_bits(pre_activation, wanted_before));
    CHECK(same_bits(c, wanted));
    CHECK(amax == largest);
  });
}

TEST_CASE("cuts and threads change no bit of an accumulator", "[unit][gemm][invariance]") {
  const Product product =
      narrow_product(167, 250, 230, {0, 100, 130, 200, 230}, Layout::transposed);
  for (const Accumulation& how : {Accumulation{formats::bf16, 1, 0}, {formats::fp16, 4, 32}}) {
    const std::vector<float> wanted = reference_sums(product, how);
    for (const int threads : {1, 2, 3, 7}) {
      auto context = make_context({.threads = threads});
      std::vector<float> c(wanted.size());
      GemmArgs args = product.args();
      args.accumulation = how;
      args.c = plain_target(c, product.n);
      soma::multiply(context, args);
      CHECK(same_bits(c, wanted));
    }
    on_every_target([&](const Context& context) {
      for (const std::size_t rows : {1u, 10u})
        for (const std::size_t columns : {13u, 250u}) {
          std::vector<float> cut(wanted.size());
          for (std::size_t row = 0; row < product.m; row += rows)
            for (std::size_t column = 0; column < product.n; column += columns) {
              GemmArgs args = product.args();
              args.accumulation = how;
              args.c = plain_target(cut, product.n);
              multiply(context, detail::part(args, row, (std::min)(rows, product.m - row), column,
                                             (std::min)(columns, product.n - column)));
            }
          CHECK(same_bits(cut, wanted));
        }
    });
  }
}

TEST_CASE("a bf16 accumulator stalls, and promotion helps", "[unit][gemm][accumulation]") {
  const Product ones = constant_product(4096, 1, 1);
  on_every_target([&](const Context& context) {
    // 256 + 1 lies half way between bf16 numbers, and 256 is the even one.
    CHECK(sum_of(context, ones, {formats::bf16, 1, 0}) == 256);
    CHECK(sum_of(context, ones, {formats::bf16, 1, 128}) == 4096);
    // Later with more products between roundings: 8 of them are half a spacing at 2048.
    CHECK(sum_of(context, ones, {formats::bf16, 8, 0}) == 2048);
    CHECK(sum_of(context, ones, {formats::fp16, 1, 0}) == 2048);
    CHECK(sum_of(context, ones, {}) == 4096);
  });
}
