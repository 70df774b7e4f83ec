// MX numbers on the core: quantize_mx and matmul_mx against plain double arithmetic, the layout of
// scales, and what is refused.

#include "neuroncore/test_core.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace soma_test;
using nc::Tile;
using soma::DType;

namespace {

// A format by its three numbers: 4 exponent bits, 3 of mantissa, largest 448; or 5, 2 and 57344.
struct Format {
  DType dtype;
  int mantissa, least_exponent, emax;
  double largest;
};
constexpr Format e4m3fn{DType::fp8_e4m3fn, 3, -6, 8, 448}, e5m2{DType::fp8_e5m2, 2, -14, 15, 57344};

double nearest(const Format& format, double x) {
  if (x == 0 || std::isnan(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);  // |x| in [2^(exponent - 1), 2^exponent)
  const double step =
      std::ldexp(1.0, std::max(exponent - 1, format.least_exponent) - format.mantissa);
  return std::clamp(std::nearbyint(x / step) * step, -format.largest, format.largest);
}

// The exponent of a group's scale; `more`: 1 by the accelerator's rule, 0 by OCP's.
int scale_exponent(const Format& format, double amax, int more) {
  if (amax == 0) return -127;
  int exponent = 0;
  std::frexp(amax, &exponent);
  return std::clamp(exponent - 1 - format.emax + more, -127, 127);
}

// The numbers that a group becomes.
struct Quantized {
  std::vector<double> values;  // codes times scales, [partitions, 4 N]
  std::vector<double> codes;   // the same without scales
  std::vector<int> exponents;  // [partitions / 8, N]
};
Quantized quantized(const Format& format, const std::vector<float>& x, std::size_t partitions,
                    int more = 1) {
  const std::size_t count = x.size() / partitions, packs = count / 4;
  Quantized result{std::vector<double>(x.size()), std::vector<double>(x.size()),
                   std::vector<int>(partitions / 8 * packs)};
  for (std::size_t g = 0; g < partitions / 8; ++g)
    for (std::size_t j = 0; j < packs; ++j) {
      double amax = 0;
      for (std::size_t i = 0; i < 32; ++i)
        amax = std::max(amax, std::fabs(double{x[(8 * g + i / 4) * count + 4 * j + i % 4]}));
      const int exponent = scale_exponent(format, amax, more);
      result.exponents[g * packs + j] = exponent;
      for (std::size_t i = 0; i < 32; ++i) {
        const std::size_t at = (8 * g + i / 4) * count + 4 * j + i % 4;
        result.codes[at] = nearest(format, std::ldexp(double{x[at]}, -exponent));
        result.values[at] = std::ldexp(result.codes[at], exponent);
      }
    }
  return result;
}

constexpr nc::Machine v4 = [] {
  nc::Machine machine = nc::trn3();
  machine.launch_ns = 0;
  return machine;
}();

// Numbers of many magnitudes, some of them 0, as bf16 or fp16 hold them.
std::vector<float> numbers(std::size_t count, DType dtype, std::uint64_t seed) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t word = soma::random_word({.seed = seed, .stream = 9}, i);
    const float unit = static_cast<float>(word >> 8) * 0x1p-23f - 1;
    const int power = static_cast<int>(word % 13) - 6 + static_cast<int>(seed % 5) * 2 - 4;
    x[i] = through(dtype, word % 17 == 0 ? 0.0f : std::ldexp(unit, power));
  }
  return x;
}

// A tile of MX numbers with its scales, made by the core.
struct MxTile {
  Tile codes, scales;
};
MxTile quantize(TestCore& test, const Format& format, DType from, const std::vector<float>& x,
                std::size_t partitions, std::size_t offset = 0) {
  const std::size_t count = x.size() / partitions;
  const Tile src = test.tile(from, partitions, x);
  const Tile codes = test.core.sbuf.tile(format.dtype, partitions, count).packed4();
  const Tile all = test.core.sbuf.tile(DType::e8m0, 128, count / 4);
  const Tile scales = all.rows(offset, offset + partitions - 28);
  test.core.vector.quantize_mx(codes, src, scales);
  return {codes, scales};
}

}  // namespace

TEST_CASE("MX codes, scales and products equal plain arithmetic", "[unit][neuroncore]") {
  double worst = 0;
  TestCore test({}, 1, {}, v4);
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    INFO("seed " << seed);
    const nc::Core::Scope scope(test.core);
    const auto draw = [&](std::uint32_t stream, std::uint32_t below) {
      return soma::random_word({.seed = seed, .stream = stream}, 0) % below;
    };
    const std::size_t partitions = 32 * (1 + draw(1, 4)), m = 2 * (1 + draw(2, 8)),
                      n = 1 + draw(3, 20), k = 4 * partitions;
    const Format &fa = draw(4, 2) == 0 ? e4m3fn : e5m2, &fb = draw(5, 2) == 0 ? e4m3fn : e5m2;
    const DType from = draw(6, 2) == 0 ? DType::bf16 : DType::fp16;
    const std::vector<float> a = numbers(partitions * 4 * m, from, 2 * seed),
                             b = numbers(partitions * 4 * n, from, 2 * seed + 1);
    const MxTile ta = quantize(test, fa, from, a, partitions, 4 * draw(7, 4)),
                 tb = quantize(test, fb, from, b, partitions, 4 * draw(8, 4));
    const Quantized qa = quantized(fa, a, partitions), qb = quantized(fb, b, partitions);
    const auto equal = [&](const MxTile& tile, const Quantized& wanted) {
      const std::vector<float> codes = test.values(tile.codes);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < codes.size(); ++i) wrong += double{codes[i]} != wanted.codes[i];
      const std::size_t packs = tile.codes.dimension(0).size;
      for (std::size_t g = 0; g < partitions / 8; ++g) {
        const std::size_t row = g / 4 * 32 + g % 4;
        const std::vector<std::byte> scales = test.codes(tile.scales.rows(row, row + 1));
        for (std::size_t j = 0; j < packs; ++j)
          wrong += std::to_integer<int>(scales[j]) != wanted.exponents[g * packs + j] + 127;
      }
      CHECK(wrong == 0);
    };
    equal(ta, qa);
    equal(tb, qb);
    const Tile sums = test.core.psum.tile(m, n);
    test.core.tensor.matmul_mx(sums, ta.codes, tb.codes, ta.scales, tb.scales);
    const std::vector<float> given = test.values(sums);
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        double sum = 0, magnitude = 0;
        for (std::size_t p = 0; p < partitions; ++p)
          for (std::size_t e = 0; e < 4; ++e) {
            const double product = qa.values[(p * m + i) * 4 + e] * qb.values[(p * n + j) * 4 + e];
            sum += product;
            magnitude += std::fabs(product);
          }
        const double error = std::fabs(double{given[i * n + j]} - sum);
        if (magnitude > 0)
          worst = std::max(worst, error / (static_cast<double>(k) * 0x1p-24 * magnitude));
        else
          CHECK(error == 0);
      }
  }
  INFO(worst);
  CHECK(worst <= 1);
}

TEST_CASE("the accelerator's rule doubles OCP's scale, and nothing saturates",
          "[unit][neuroncore]") {
  // A group whose largest number is 1.9 x 2^3: by OCP's rule 448 is the most that it reaches.
  std::vector<float> x(32 * 4);
  const float largest = through(DType::bf16, 1.9f * 8);
  x[0] = largest;
  x[5] = -1;
  TestCore test({}, 1, {}, v4);
  const MxTile tile = quantize(test, e4m3fn, DType::bf16, x, 32);
  const Quantized ours = quantized(e4m3fn, x, 32, 1), ocp = quantized(e4m3fn, x, 32, 0);
  CHECK(ours.exponents[0] == ocp.exponents[0] + 1);
  CHECK(std::to_integer<int>(test.codes(tile.scales.rows(0, 1))[0]) == ours.exponents[0] + 127);
  CHECK(ocp.codes[0] == 448);   // saturated
  CHECK(ours.codes[0] == 240);  // 15.2 / 2^-4 = 243.2
  CHECK(test.values(tile.codes)[0] == 240);
  CHECK(std::fabs(ocp.values[0] - double{largest}) > std::fabs(ours.values[0] - double{largest}));
}

TEST_CASE("groups of zeros, of NaN and of extreme numbers", "[unit][neuroncore]") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), huge = 0x1.FCp127f;
  std::vector<float> x(64 * 8, 1);  // two packs, eight groups each
  const auto group = [&](std::size_t g, std::size_t pack) -> float& {
    return x[(8 * g + 3) * 8 + 4 * pack + 2];
  };
  for (std::size_t p = 0; p < 8; ++p)
    for (std::size_t i = 0; i < 4; ++i) x[p * 8 + i] = 0;
  group(1, 0) = nan;
  group(2, 1) = -HUGE_VALF;
  group(3, 0) = huge;
  TestCore test({}, 1, {}, v4);
  const MxTile tile = quantize(test, e4m3fn, DType::bf16, x, 64, 8);
  const auto scale = [&](std::size_t g, std::size_t pack) {
    const std::size_t row = g / 4 * 32 + g % 4;
    return std::to_integer<int>(test.codes(tile.scales.rows(row, row + 1))[pack]);
  };
  CHECK(scale(0, 0) == 0);
  CHECK(scale(0, 1) == 120);  // 1: floor(log2) - 7
  CHECK(scale(1, 0) == 255);
  CHECK(scale(2, 1) == 255);
  CHECK(scale(3, 0) == 127 + 120);
  CHECK(scale(7, 1) == 120);
  // All 32 numbers of a group with NaN are NaN, in products too; others stay. The product of two
  // numbers beyond fp32 is not infinite before small ones meet them.
  const Tile sums = test.core.psum.tile(2, 2);
  test.core.tensor.matmul_mx(sums, tile.codes, tile.codes, tile.scales, tile.scales);
  const std::vector<float> given = test.values(sums);
  CHECK(std::isnan(given[0]));
  CHECK(std::isnan(given[3]));

  // 2^127 x 2^-127: the sum is computed though 448 x 2^127 is too large for fp32.
  TestCore other({}, 1, {}, v4);
  const Tile codes = other.core.sbuf.tile(DType::fp8_e4m3fn, 32, 8);
  other.core.vector.memset(codes, 256);
  const auto scales = [&](std::uint8_t code) {
    const Tile made = other.core.sbuf.tile(DType::uint8, 4, 2);
    other.core.vector.memset(made, code);
    return made;
  };
  const Tile product = other.core.psum.tile(2, 2);
  other.core.tensor.matmul_mx(product, codes.packed4(), codes.packed4(), scales(254), scales(0));
  CHECK(other.values(product)[0] == 128 * 65536.0f);
}

TEST_CASE("MX products add up and leave bf16, to nearest or at random", "[unit][neuroncore]") {
  TestCore test({}, 1, {}, v4);
  const std::vector<float> x = numbers(32 * 16, DType::bf16, 5);
  const MxTile tile = quantize(test, e4m3fn, DType::bf16, x, 32);
  const auto product = [&](const Tile& dst, nc::Accumulate accumulate,
                           const nc::Rounded& rounded = {}) {
    test.core.tensor.matmul_mx(dst, tile.codes, tile.codes, tile.scales, tile.scales, accumulate,
                               rounded);
    return test.values(dst);
  };
  const Tile wide = test.core.psum.tile(4, 4), narrow = test.core.psum.tile(4, 4, DType::bf16);
  const std::vector<float> once = product(wide, nc::Accumulate::no),
                           twice = product(wide, nc::Accumulate::yes),
                           rounded = product(narrow, nc::Accumulate::no);
  for (std::size_t i = 0; i < once.size(); ++i) {
    CHECK(twice[i] == 2 * once[i]);
    CHECK(rounded[i] == through(DType::bf16, once[i]));
  }
  // The mean of many stochastic roundings lies close to the sum, each is one of its neighbours.
  double mean = 0;
  const int draws = 400;
  std::size_t other = 0;
  for (int i = 0; i < draws; ++i) {
    const nc::Rounded how{.rounding = {.mode = soma::RoundingMode::stochastic},
                          .position = {.draw = {.seed = static_cast<std::uint64_t>(i)}}};
    const float drawn = product(narrow, nc::Accumulate::no, how)[1];
    CHECK(std::fabs(drawn - once[1]) <= std::fabs(once[1]) * 0x1p-7f);
    other += drawn != rounded[1];
    mean += double{drawn} / draws;
  }
  CHECK(std::fabs(mean - double{once[1]}) <= std::fabs(double{once[1]}) * 0x1p-8 * 0.2);
  CHECK((other > 0 || once[1] == rounded[1]));
}

TEST_CASE("MX operands in another layout are refused with their numbers", "[unit][neuroncore]") {
  TestCore test({}, 1, {}, v4);
  nc::Core& core = test.core;
  const Tile a = core.sbuf.tile(DType::fp8_e4m3fn, 128, 16).packed4(),
             b = core.sbuf.tile(DType::fp8_e4m3fn, 128, 32).packed4();
  const Tile sa = core.sbuf.tile(DType::e8m0, 128, 4), sb = core.sbuf.tile(DType::e8m0, 128, 8);
  const Tile sums = core.psum.tile(4, 8);
  core.vector.memset(a, 1).memset(b, 1);
  core.vector.memset(sa.as(DType::uint8), 127).memset(sb.as(DType::uint8), 127);
  const auto message = [&](const Tile& dst, const Tile& x, const Tile& y, const Tile& sx,
                           const Tile& sy) {
    return message_of([&] { core.tensor.matmul_mx(dst, x, y, sx, sy); });
  };
  CHECK_NOTHROW(core.tensor.matmul_mx(sums, a, b, sa, sb));
  CHECK(test.values(sums)[31] == 512);
  const auto rule = contains("[neuroncore.rule]");
  // Scales of the second quadrant for codes that begin in the first.
  CHECK_THAT(message(sums, a, b, sa.rows(32, 128), sb), rule && contains("partition 32"));
  CHECK_THAT(message(sums, a, b, sa, sb.rows(2, 128)), rule && contains("partition 2"));
  CHECK_THAT(message(sums, a, b, sa, sb.rows(16, 128)), rule && contains("partition 16"));
  CHECK_THAT(message(sums, a, b, sa, sb.rows(0, 99)),
             rule && contains("99 partitions") && contains("at least 100"));
  CHECK_THAT(message(sums, a, b, sa, sb.columns(0, 7)), rule && contains("8 scales a partition"));
  CHECK_THAT(message(sums, a.rows(0, 24), b.rows(0, 24), sa, sb),
             rule && contains("24 partitions") && contains("a multiple of 32"));
  CHECK_THAT(message(sums.rows(0, 3), a.slice(0, 0, 3), b, sa.columns(0, 3), sb),
             rule && contains("3 columns"));
  CHECK_THAT(message(sums, a.reshape({16}), b, sa, sb), rule && contains("packed4"));
  const Tile legacy = core.sbuf.tile(DType::fp8_e4m3, 128, 32);
  core.vector.memset(legacy, 1);
  CHECK_THAT(message(sums, a, legacy.packed4(), sa, sb), rule && contains("fp8_e4m3fn or"));
  CHECK_THAT(
      message_of([&] { core.tensor.matmul(core.psum.tile(16, 32), a.reshape({16}), legacy); }),
      rule && contains("not both"));
  // The small form: the scales of 32 partitions are four.
  CHECK_NOTHROW(
      core.tensor.matmul_mx(sums, a.rows(0, 32), b.rows(0, 32), sa.rows(12, 16), sb.rows(0, 4)));
  CHECK(test.values(sums)[0] == 128);
  CHECK(id_of([&] { core.sbuf.tile(DType::bf16, 32, 8).packed4(); }) == "neuroncore.rule_broken");
  const Tile src = core.sbuf.tile(DType::fp32, 128, 16);
  core.vector.memset(src, 1);
  CHECK(id_of([&] { core.vector.quantize_mx(a, src, sa); }) == "neuroncore.rule_broken");
  // Scales that nobody wrote, and codes that wait for them.
  TestCore strict({.uninitialised = nc::Uninitialised::error}, 1, {}, v4);
  const Tile codes = strict.core.sbuf.tile(DType::fp8_e5m2, 64, 8);
  const Tile scales = strict.core.sbuf.tile(DType::uint8, 64, 2);
  strict.core.vector.memset(codes, 1).memset(scales.rows(0, 32), 127);
  CHECK(id_of([&] {
          strict.core.tensor.matmul_mx(strict.core.psum.tile(2, 2), codes.packed4(),
                                       codes.packed4(), scales, scales);
        }) == "neuroncore.undefined");
}
