// Writes to a tile: rounding to each type, casts to integers, and stochastic rounding that depends
// on the element only.

#include "neuroncore/test_core.hpp"

#include "support/samples.hpp"

#include <array>
#include <cfenv>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace soma_test;
using nc::DrawPosition;
using nc::Rounded;
using nc::Tile;
using soma::Draw;
using soma::DType;
using soma::Rounding;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan32 = std::numeric_limits<float>::quiet_NaN();

// A row of values written to a tile of that type by one of the engines.
using Write = void (*)(nc::Core&, const Tile& to, const Tile& from, const Rounded&);
constexpr std::array<Write, 3> writes{
    [](nc::Core& core, const Tile& to, const Tile& from, const Rounded& rounded) {
      core.vector.copy(to, from, rounded);
    },
    [](nc::Core& core, const Tile& to, const Tile& from, const Rounded& rounded) {
      core.scalar.copy(to, from, rounded);
    },
    [](nc::Core& core, const Tile& to, const Tile& from, const Rounded& rounded) {
      core.gpsimd.copy(to, from, rounded);
    }};

}  // namespace

TEST_CASE("every code of a type goes to fp32 and back", "[unit][neuroncore]") {
  for (const DType dtype : tile_floats) {
    if (soma::size_of(dtype) > 2) continue;
    INFO(std::string(to_string(dtype)));
    TestCore test;
    const std::size_t width = soma::size_of(dtype), count = std::size_t{1} << (8 * width);
    const std::size_t rows = count / 256;
    std::vector<std::byte> codes(count * width);
    for (std::size_t i = 0; i < count; ++i) put(codes, i, width, i);
    const std::size_t partitions = (std::min)(rows, std::size_t{128});
    const Tile from = test.core.sbuf.tile(dtype, partitions, count / partitions);
    const Tile wide = test.core.sbuf.tile(DType::fp32, partitions, count / partitions);
    const Tile back = test.core.sbuf.tile(dtype, partitions, count / partitions);
    test.put_codes(from, codes);
    test.core.vector.copy(wide, from).copy(back, wide);
    CHECK(same_bits(test.values(wide), values_of(dtype, codes)));
    CHECK(test.codes(back) == codes);
  }
}

TEST_CASE("fp8 conversions have the known bytes", "[unit][neuroncore]") {
  struct Row {
    float value;
    std::array<int, 3> codes;  // e3m4, e4m3, e5m2
  };
  const std::vector<Row> rows{{1.0f, {0x30, 0x38, 0x3C}},
                              {-1.0f, {0xB0, 0xB8, 0xBC}},
                              {0.1f, {0x06, 0x1D, 0x2E}},
                              {0.3f, {0x13, 0x2A, 0x35}},
                              {1.03125f, {0x30, 0x38, 0x3C}},
                              {1.0625f, {0x31, 0x38, 0x3C}},
                              {1.125f, {0x32, 0x39, 0x3C}},
                              {3.14159265f, {0x49, 0x45, 0x42}},
                              {-2.7182818f, {0xC6, 0xC3, 0xC1}},
                              {15.5f, {0x6F, 0x58, 0x4C}},
                              {15.74f, {0x6F, 0x58, 0x4C}},
                              {15.75f, {0x70, 0x58, 0x4C}},
                              {100.0f, {0x70, 0x6C, 0x56}},
                              {239.9f, {0x70, 0x77, 0x5B}},
                              {240.0f, {0x70, 0x77, 0x5C}},
                              {247.9f, {0x70, 0x77, 0x5C}},
                              {248.0f, {0x70, 0x78, 0x5C}},
                              {448.0f, {0x70, 0x78, 0x5F}},
                              {57344.0f, {0x70, 0x78, 0x7B}},
                              {61439.0f, {0x70, 0x78, 0x7B}},
                              {61440.0f, {0x70, 0x78, 0x7C}},
                              {0x1p-3f, {0x08, 0x20, 0x30}},
                              {0x1p-6f, {0x01, 0x08, 0x24}},
                              {0x1p-7f, {0x00, 0x04, 0x20}},
                              {1.5f * 0x1p-7f, {0x01, 0x06, 0x22}},
                              {0x1p-9f, {0x00, 0x01, 0x18}},
                              {0x1p-10f, {0x00, 0x00, 0x14}},
                              {1.01f * 0x1p-10f, {0x00, 0x01, 0x14}},
                              {0x1p-16f, {0x00, 0x00, 0x01}},
                              {0x1p-17f, {0x00, 0x00, 0x00}},
                              {1.01f * 0x1p-17f, {0x00, 0x00, 0x01}}};
  std::vector<float> values;
  for (const Row& row : rows) values.push_back(row.value);
  for (const Write write : writes) {
    TestCore test;
    const Tile from = test.tile(DType::fp32, 1, values);
    for (std::size_t format = 0; format < 3; ++format) {
      const DType dtypes[] = {DType::fp8_e3m4, DType::fp8_e4m3, DType::fp8_e5m2};
      const Tile to = test.core.sbuf.tile(dtypes[format], 1, values.size());
      write(test.core, to, from, {});
      const std::vector<std::byte> codes = test.codes(to);
      for (std::size_t i = 0; i < values.size(); ++i) {
        INFO(values[i] << " to " << to_string(dtypes[format]));
        CHECK(static_cast<int>(codes[i]) == rows[i].codes[format]);
      }
    }
  }
}

TEST_CASE("what is too large for cFP8 follows the policy", "[unit][neuroncore]") {
  for (const auto& [policy, code] :
       {std::pair{soma::Overflow::infinity, 0x78}, std::pair{soma::Overflow::saturate, 0x77},
        std::pair{soma::Overflow::nan, 0x7C}}) {
    TestCore test({.overflow = policy});
    const Tile from = test.tile(DType::fp32, 1, std::vector<float>{240, 300, -300});
    const Tile to = test.core.sbuf.tile(DType::fp8_e4m3, 1, 3);
    test.core.vector.copy(to, from);
    const std::vector<std::byte> codes = test.codes(to);
    CHECK(static_cast<int>(codes[0]) == 0x77);
    CHECK(static_cast<int>(codes[1]) == code);
    CHECK(static_cast<int>(codes[2]) == (code | 0x80));
    // A transfer that converts does the same.
    const soma::Tensor stored =
        soma::Tensor::empty(test.context, soma::Shape{1, 3}, DType::fp8_e4m3);
    test.core.dma.store(nc::hbm_target(stored), from);
    CHECK(std::vector<std::byte>(stored.raw(), stored.raw() + 3) == codes);
    // Wider types keep to IEEE 754.
    const Tile half = test.core.sbuf.tile(DType::fp16, 1, 3);
    test.core.vector.tensor_scalar(half, from, nc::Alu::multiply, 1e4f);
    CHECK(test.values(half)[0] == infinity);
  }
}

TEST_CASE("rounding to each type is the codec's", "[unit][neuroncore]") {
  const std::vector<float> values = hard_floats(2048);
  for (const DType dtype : tile_floats)
    for (const Write write : writes) {
      if (dtype == DType::fp32) continue;
      INFO(std::string(to_string(dtype)));
      TestCore test;
      const Tile from = test.tile(DType::fp32, 2, values);
      const Tile to = test.core.sbuf.tile(dtype, 2, 1024);
      write(test.core, to, from, {});
      CHECK(test.codes(to) == stored(dtype, values));
    }
}

TEST_CASE("casts to integers round to even and saturate", "[unit][neuroncore]") {
  const std::vector<float> values{0.5f,   1.5f,   2.5f,   -0.5f,   -1.5f, 126.5f, 127.5f,   -128.5f,
                                  254.5f, 255.5f, 300.0f, -300.0f, 3e9f,  -3e9f,  infinity, nan32};
  const auto expected = [&](double low, double high) {
    std::vector<float> wanted;
    for (const float value : values) {
      const double half_up = std::floor(static_cast<double>(value) + 0.5);
      const bool tie = half_up - static_cast<double>(value) == 0.5;
      const double even = tie && std::fmod(half_up, 2) != 0 ? half_up - 1 : half_up;
      wanted.push_back(std::isnan(value) ? 0 : static_cast<float>(std::clamp(even, low, high)));
    }
    return wanted;
  };
  for (const Write write : writes) {
    TestCore test;
    const Tile from = test.tile(DType::fp32, 1, values);
    const auto cast = [&](DType dtype) {
      const Tile to = test.core.sbuf.tile(dtype, 1, values.size());
      write(test.core, to, from, {});
      return to;
    };
    CHECK(test.values(cast(DType::int8)) == expected(-128, 127));
    CHECK(test.values(cast(DType::uint8)) == expected(0, 255));
    CHECK(test.values(cast(DType::int32)) == expected(-2147483648.0, 2147483647.0));
    CHECK(test.integers_of(cast(DType::int32))[12] == 2147483647);
    CHECK(test.integers_of(cast(DType::int32))[14] == 2147483647);
  }
}

TEST_CASE("integers pass through fp32, but for copies of one type", "[unit][neuroncore]") {
  TestCore test;
  const std::vector<std::int32_t> values{16777217, -16777219, 2147483647, 5};
  const Tile from = test.integers(1, values), to = test.core.sbuf.tile(DType::int32, 1, 4);
  test.core.vector.copy(to, from);
  CHECK(test.integers_of(to) == values);
  test.core.gpsimd.copy(to, from);
  CHECK(test.integers_of(to) == values);
  const std::vector<std::int32_t> lost{16777216, -16777220, 2147483647, 5};
  test.core.scalar.copy(to, from);
  CHECK(test.integers_of(to) == lost);
  test.core.vector.tensor_scalar(to, from, nc::Alu::add, 0.0f);
  CHECK(test.integers_of(to) == lost);
}

TEST_CASE("stochastic rounding is the codec's, with the word of the logical index",
          "[unit][neuroncore]") {
  const std::size_t rows = 64, columns = 48;
  const std::vector<float> values = hard_floats(rows * columns);
  const Draw draw{.seed = 42, .stream = 7, .step = 3, .index = 1000};
  for (const DType dtype : tile_floats) {
    if (dtype == DType::fp32) continue;
    INFO(std::string(to_string(dtype)));
    const std::vector<std::byte> whole = stored(dtype, values, Rounding::stochastic, draw);
    for (const int threads : {1, 2, 7}) {
      TestCore test({}, threads);
      const Tile from = test.tile(DType::fp32, rows, values);
      const Tile to = test.core.sbuf.tile(dtype, rows, columns);
      for (const Write write : writes) {
        const DrawPosition position{.draw = draw, .partition_step = columns};
        test.core.vector.memset(to, 0);
        write(test.core, to, from, {Rounding::stochastic, position});
        CHECK(test.codes(to) == whole);
        // In pieces, in another order: each names the position of its first element.
        test.core.vector.memset(to, 0);
        for (const std::size_t first : {32u, 0u})
          for (const std::size_t column : {35u, 0u, 5u}) {
            const std::size_t end = column == 0 ? 5 : column == 5 ? 35 : columns;
            DrawPosition part = position;
            part.draw.index += first * columns + column;
            write(test.core, to.rows(first, first + 32).columns(column, end),
                  from.rows(first, first + 32).columns(column, end), {Rounding::stochastic, part});
          }
        CHECK(test.codes(to) == whole);
      }
    }
  }
}

TEST_CASE("partitions can be placed one by one", "[unit][neuroncore]") {
  const std::vector<float> values = steps(4 * 16, 1, 0x1p-20f, 5);
  const std::uint64_t places[] = {480, 0, 7 * 16, 16};
  TestCore test;
  const Tile from = test.tile(DType::fp32, 4, values), to = test.core.sbuf.tile(DType::bf16, 4, 16);
  test.core.vector.copy(to, from,
                        {Rounding::stochastic, {.draw = {.seed = 9}, .partition_indices = places}});
  std::vector<std::byte> expected;
  for (std::size_t p = 0; p < 4; ++p) {
    const std::span<const float> row(&values[p * 16], 16);
    const auto codes =
        stored(DType::bf16, row, Rounding::stochastic, {.seed = 9, .index = places[p]});
    expected.insert(expected.end(), codes.begin(), codes.end());
  }
  CHECK(test.codes(to) == expected);
}

TEST_CASE("stochastic rounding is right on average", "[unit][neuroncore][stat]") {
  // 1024 + 2048 times 0.5 in fp16, where above 1024 the numbers are 1 apart: half of the additions
  // round up. 128 independent sums; sigma of their mean is sqrt(2048 / 4) / sqrt(128) = 2, and 4 of
  // those leave one false alarm in 16000 seeds; the seed is fixed.
  for (const bool stochastic : {false, true}) {
    TestCore test;
    const Tile sum = test.core.sbuf.tile(DType::fp16, 128, 1);
    test.core.vector.memset(sum, 1024);
    for (std::uint32_t step = 0; step < 2048; ++step)
      test.core.vector.tensor_scalar(
          sum, sum, nc::Alu::add, 0.5f, nc::Alu::none, {},
          {.rounded = {stochastic ? Rounding::stochastic : Rounding::nearest_even,
                       {.draw = {.seed = 1, .step = step}, .partition_step = 1}}});
    double mean = 0;
    for (const float value : test.values(sum)) mean += static_cast<double>(value) / 128;
    if (stochastic)
      CHECK(std::fabs(mean - 2048) <= 4 * 2);
    else
      CHECK(mean == 1024);
  }
}

namespace {

// Results that are computed outside of the loops over partitions, which have their own modes:
// columns, rows of a scatter, transposes of a biased type; and reads of integers.
std::vector<std::byte> beside_the_loops() {
  TestCore test({.record = true});
  nc::Core& core = test.core;
  std::vector<std::byte> all;
  const auto keep = [&](const std::vector<std::byte>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  const Tile data = test.tile(DType::fp32, 1, std::vector<float>{0.3f, 0.1f});
  const Tile out = core.sbuf.tile(DType::fp32, 1, 2);
  for (const DType dtype : {DType::int8, DType::int32, DType::fp8_e4m3}) {
    const Tile result = core.sbuf.tile(dtype, 1, 1);
    core.vector.tensor_scalar_reduce(out, data, nc::Alu::multiply, 1, nc::Alu::add, result);
    keep(test.codes(result));
    core.scalar.activation_reduce(out, data, nc::Function::copy, result);
    keep(test.codes(result));
  }
  core.vector.tensor_scalar(out, data, nc::Alu::minimum, 1e-40f, nc::Alu::multiply, 2);
  keep(test.codes(out));
  core.vector.memset(out, 1e-40f);
  all.push_back(std::byte{core.recorded().back().cost.zero});
  for (const nc::Alu op : {nc::Alu::absolute, nc::Alu::invert}) {
    const Tile& tile =
        op == nc::Alu::invert ? test.integers(1, std::vector<std::int32_t>{5}) : data;
    const std::string message =
        message_of([&] { core.vector.tensor_scalar(tile, tile, op, 1e-40f); });
    all.push_back(std::byte{message == "no error"});
  }
  const Tile odd = test.integers(1, std::vector<std::int32_t>{16777217});
  core.scalar.activation(out.columns(0, 1), data.columns(0, 1), nc::Function::copy, {.bias = &odd});
  keep(test.codes(out));
  all.push_back(static_cast<std::byte>(core.values(odd)[0] == 16777216.0f));

  const Tile index = test.integers(1, std::vector<std::int32_t>{0});
  for (const float value : {1e-40f, 0.1f}) {
    const soma::Tensor table = soma::Tensor::full(test.context, {1, 2}, value == 0.1f ? 3 : value);
    const Tile more = test.tile(DType::fp32, 1, std::vector<float>(2, value));
    core.dma.scatter(nc::hbm_target(table), more, index, nc::Scatter::add);
    keep({table.raw(), table.raw() + table.bytes()});
  }

  const Tile biased = core.sbuf.tile(DType::fp8_e4m3, 1, 1).with_bias(5);
  core.vector.memset(biased, -0.0f);
  const Tile turned = core.psum.tile(1, 1, DType::fp8_e4m3),
             back = core.sbuf.tile(DType::fp8_e4m3, 1, 1);
  core.tensor.transpose(turned, biased);
  core.vector.copy(back, turned);
  keep(test.codes(back));
  return all;
}

}  // namespace

TEST_CASE("the host's floating-point modes change nothing", "[unit][neuroncore]") {
  const std::vector<std::byte> expected = beside_the_loops();
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    REQUIRE(std::fesetround(mode) == 0);
    const std::vector<std::byte> found = beside_the_loops();
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    CHECK(after == mode);
    CHECK((found == expected));
  }
#if defined(__x86_64__)
  const unsigned modes = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(modes | 0x8040);  // subnormal results and operands are zero
  const std::vector<std::byte> found = beside_the_loops();
  const unsigned after = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(modes);
  CHECK((after & 0x8040) == 0x8040);
  CHECK((found == expected));
#endif
}
