// Integers of 16 and 32 bits with and without sign: conversions, and the instructions that treat
// integers as integers.

#include "neuroncore/test_core.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

using namespace soma_test;
using nc::Alu;
using nc::Tile;
using soma::DType;
using soma::Shape;
using soma::Tensor;

namespace {

template <class Integer>
Tile tile_of(TestCore& test, std::size_t partitions, const std::vector<Integer>& values) {
  const Tile tile =
      test.core.sbuf.tile(soma::dtype_of<Integer>, partitions, values.size() / partitions);
  test.put_codes(tile, std::as_bytes(std::span(values)));
  return tile;
}

template <class Integer>
std::vector<Integer> in(TestCore& test, const Tile& tile) {
  const std::vector<std::byte> bytes = test.codes(tile);
  std::vector<Integer> values(bytes.size() / sizeof(Integer));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// To the nearest integer, ties to even, and to the nearest end of the range; NaN to 0.
template <class Integer>
Integer converted(float value) {
  if (std::isnan(value)) return 0;
  const double whole = std::nearbyint(static_cast<double>(value));
  constexpr auto low = static_cast<double>(std::numeric_limits<Integer>::min());
  constexpr auto high = static_cast<double>(std::numeric_limits<Integer>::max());
  return whole < low    ? std::numeric_limits<Integer>::min()
         : whole > high ? std::numeric_limits<Integer>::max()
                        : static_cast<Integer>(whole);
}

template <class Integer>
void check_conversions() {
  constexpr auto low = std::numeric_limits<Integer>::min();
  constexpr auto high = std::numeric_limits<Integer>::max();
  const auto top = static_cast<float>(high), bottom = static_cast<float>(low);
  const std::vector<float> x{0.5f,     1.5f,      2.5f,       -0.5f,
                             -1.5f,    -2.5f,     top,        std::nextafter(top, 0.0f),
                             top * 2,  bottom,    bottom - 1, bottom * 2,
                             -1,       127.5f,    32767.5f,   65534.5f,
                             65535.5f, 1e10f,     -1e10f,     3e38f,
                             -3e38f,   HUGE_VALF, -HUGE_VALF, std::nanf("")};
  std::vector<Integer> wanted;
  for (const float value : x) wanted.push_back(converted<Integer>(value));
  for (const bool wide : {false, true}) {
    TestCore test({.everything_fp32 = wide});
    nc::Core& core = test.core;
    const Tile floats = test.tile(DType::fp32, 1, x);
    const Tile integers = core.sbuf.tile(soma::dtype_of<Integer>, 1, x.size());
    core.vector.copy(integers, floats);
    CHECK(in<Integer>(test, integers) == wanted);
    core.scalar.copy(integers, floats);
    CHECK(in<Integer>(test, integers) == wanted);
    core.gpsimd.copy(integers, floats);
    CHECK(in<Integer>(test, integers) == wanted);
    core.vector.copy(integers.pattern({{-1, x.size()}}, x.size() - 1), floats);
    std::vector<Integer> reversed(wanted.rbegin(), wanted.rend());
    CHECK(in<Integer>(test, integers) == reversed);
    // Transfers: into a tile, and out of one.
    const Tensor host = Tensor::from<float>(test.context, x, Shape{1, x.size()});
    core.dma.load(integers, nc::hbm(host));
    CHECK(in<Integer>(test, integers) == wanted);
    const Tensor out = Tensor::zeros(test.context, Shape{1, x.size()}, soma::dtype_of<Integer>);
    core.dma.store(nc::hbm_target(out), floats);
    core.finish();
    CHECK(std::equal(wanted.begin(), wanted.end(), out.data<Integer>()));
  }
  // And to fp32, one rounding: all numbers of 16 bits, and the ends of 32.
  std::vector<Integer> all;
  for (std::int64_t i = -70; i <= 70; ++i)
    for (const std::int64_t near :
         {std::int64_t{low}, std::int64_t{0}, std::int64_t{1} << 24, std::int64_t{high}})
      if (near + i >= std::int64_t{low} && near + i <= std::int64_t{high})
        all.push_back(static_cast<Integer>(near + i));
  TestCore test;
  const Tile integers = tile_of<Integer>(test, 1, all);
  const Tile floats = test.core.sbuf.tile(DType::fp32, 1, all.size());
  std::vector<float> exact;
  for (const Integer value : all) exact.push_back(static_cast<float>(value));
  test.core.vector.copy(floats, integers);
  CHECK(test.values(floats) == exact);
  test.core.dma.copy(floats, integers);
  CHECK(test.values(floats) == exact);
  CHECK(test.values(integers) == exact);
  const Tensor host = Tensor::from<Integer>(test.context, all, Shape{1, all.size()});
  test.core.dma.load(floats, nc::hbm(host));
  CHECK(test.values(floats) == exact);
  // One type moves bit for bit.
  const Tile same = test.core.sbuf.tile(soma::dtype_of<Integer>, 1, all.size());
  test.core.vector.copy(same, integers);
  CHECK(in<Integer>(test, same) == all);
}

}  // namespace

TEST_CASE("integers round to nearest even and saturate", "[unit][neuroncore]") {
  check_conversions<std::int16_t>();
  check_conversions<std::uint16_t>();
  check_conversions<std::int32_t>();
  check_conversions<std::uint32_t>();
}

TEST_CASE("operators on bits take integers of every width", "[unit][neuroncore]") {
  const auto check = []<class Integer>(Integer) {
    TestCore test;
    nc::Core& core = test.core;
    constexpr std::size_t width = 8 * sizeof(Integer);
    std::vector<Integer> x, y;
    for (std::size_t i = 0; i < 64; ++i) {
      x.push_back(static_cast<Integer>(soma::random_word({.seed = 1}, i)));
      y.push_back(static_cast<Integer>(soma::random_word({.seed = 2}, i)));
    }
    const Tile a = tile_of<Integer>(test, 1, x), b = tile_of<Integer>(test, 1, y);
    const Tile dst = core.sbuf.tile(soma::dtype_of<Integer>, 1, 64);
    const auto expect = [&](const auto& of) {
      const std::vector<Integer> seen = in<Integer>(test, dst);
      for (std::size_t i = 0; i < 64; ++i) CHECK(seen[i] == static_cast<Integer>(of(x[i], y[i])));
    };
    using Bits = std::make_unsigned_t<Integer>;
    const auto u = [](Integer value) { return static_cast<Bits>(value); };
    core.vector.tensor_tensor(dst, a, b, Alu::bitwise_and);
    expect([](Integer p, Integer q) { return p & q; });
    core.vector.tensor_tensor(dst, a, b, Alu::bitwise_xor);
    expect([](Integer p, Integer q) { return p ^ q; });
    core.vector.tensor_scalar(dst, a, Alu::right_shift, 3);  // zeros come in
    expect([&](Integer p, Integer) { return u(p) >> 3; });
    core.vector.tensor_scalar(dst, a, Alu::left_shift, 5, Alu::bitwise_or, 1);
    expect([&](Integer p, Integer) { return u(p) << 5 | 1; });
    core.vector.tensor_scalar(dst, a, Alu::invert, 0);
    expect([](Integer p, Integer) { return ~p; });
    const Tile one = core.sbuf.tile(soma::dtype_of<Integer>, 1, 1);
    core.vector.tensor_reduce(one, a, Alu::bitwise_xor);
    Integer fold = 0;
    for (const Integer value : x) fold = static_cast<Integer>(fold ^ value);
    CHECK(in<Integer>(test, one)[0] == fold);
    CHECK(id_of([&] {
            core.vector.tensor_scalar(dst, a, Alu::left_shift, static_cast<float>(width));
          }) == "neuroncore.undisclosed");
  };
  check(std::int8_t{});
  check(std::int16_t{});
  check(std::uint16_t{});
  check(std::int32_t{});
  check(std::uint32_t{});
}

TEST_CASE("indices have the published types, and int32", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  const std::vector<float> x = steps(16 * 40, 100, 0.125f, 4);
  const Tile src = test.tile(DType::fp32, 16, x);
  const auto gather = [&](const Tile& indices) {
    const Tile dst = core.sbuf.tile(DType::fp32, 16, 32);
    core.gpsimd.local_gather(dst, src, indices, 32);
    return test.values(dst);
  };
  std::vector<std::uint16_t> narrow;
  std::vector<std::uint32_t> wide;
  std::vector<std::int32_t> whole;
  for (std::size_t i = 0; i < 32; ++i) {
    const auto index = static_cast<std::uint16_t>(i * 7 % 40);
    narrow.push_back(index);
    wide.push_back(index);
    whole.push_back(index);
  }
  std::vector<float> wanted;
  for (std::size_t p = 0; p < 16; ++p)
    for (std::size_t i = 0; i < 32; ++i)  // indices: partitions vary fastest
      wanted.push_back(x[p * 40 + narrow[i % 16 * 2 + i / 16]]);
  CHECK(gather(tile_of(test, 16, narrow)) == wanted);
  CHECK(gather(tile_of(test, 16, whole)) == wanted);
  CHECK(id_of([&] { gather(tile_of(test, 16, wide)); }) == "neuroncore.rule_broken");
  const auto n_gather = [&](const Tile& indices) {
    const Tile dst = core.sbuf.tile(DType::fp32, 1, indices.free_size());
    core.gpsimd.n_gather(dst, src.rows(0, 1), indices);
    return test.values(dst);
  };
  std::vector<float> picked;
  for (const std::uint16_t index : narrow) picked.push_back(x[index]);
  CHECK(n_gather(tile_of(test, 1, wide)) == picked);
  CHECK(n_gather(tile_of(test, 1, whole)) == picked);
  CHECK(id_of([&] { n_gather(tile_of(test, 1, narrow)); }) == "neuroncore.rule_broken");
  // Large unsigned numbers are no negative ones, and not small ones either.
  CHECK(message_of([&] {
          n_gather(tile_of<std::uint32_t>(test, 1, {4294967295u}));
        }).find("is 4294967295, wanted") != std::string::npos);
  CHECK(message_of([&] { n_gather(tile_of<std::int32_t>(test, 1, {-1})); }).find("is -1, wanted") !=
        std::string::npos);
  // Rows of a table.
  const Tensor table = Tensor::from<float>(test.context, counting(30), Shape{10, 3});
  const Tile rows = core.sbuf.tile(DType::fp32, 2, 3);
  core.dma.gather(rows, nc::hbm(table), tile_of<std::uint32_t>(test, 2, {7, 2}));
  CHECK(test.values(rows) == std::vector<float>{21, 22, 23, 6, 7, 8});
  CHECK(message_of([&] {
          core.dma.gather(rows, nc::hbm(table), tile_of<std::uint32_t>(test, 2, {7, 4000000000u}));
          core.finish();
        }).find("4000000000 in partition 1") != std::string::npos);
}

TEST_CASE("an index that was not found has all bits set", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  const Tile data = test.tile(DType::fp32, 1, std::vector<float>{1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8});
  const Tile values = test.tile(DType::fp32, 1, std::vector<float>{3, 8, 5, 8, 1, 1, 4, 9});
  const std::vector<int> wanted{2, 4, -1, 5, 0, -1, 3, -1};
  const auto check = [&]<class Integer>(Integer) {
    const Tile dst = core.sbuf.tile(soma::dtype_of<Integer>, 1, 8);
    std::vector<Integer> expected;
    for (const int index : wanted) expected.push_back(static_cast<Integer>(index));
    core.vector.find_index8(dst, data, values);
    CHECK(in<Integer>(test, dst) == expected);
    const Tile out = core.sbuf.tile(DType::fp32, 1, 11);
    // The published example.
    const Tile eights = test.tile(DType::fp32, 1, std::vector<float>{3, 8, 8, 8, 8, 8, 8, 8});
    core.vector.match_replace8(out, data, eights, 0, &dst);
    CHECK(in<Integer>(test, dst) == std::vector<Integer>{2, 10, 9, 8, 7, 6, 5, 4});
  };
  check(std::uint16_t{});
  check(std::uint32_t{});
  check(std::int32_t{});
  const Tile bytes = core.sbuf.tile(DType::uint8, 1, 8);
  CHECK(id_of([&] { core.vector.find_index8(bytes, data, values); }) == "neuroncore.rule_broken");
}

TEST_CASE("predicates have the published types", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  const Tile x = test.tile(DType::bf16, 2, counting(8, 1)), y = core.sbuf.tile(DType::bf16, 2, 4);
  struct Case {
    DType dtype;
    bool select, copy;
  };
  for (const Case& predicate :
       {Case{DType::int8, true, false}, Case{DType::uint8, true, true},
        Case{DType::int16, true, false}, Case{DType::uint16, true, true},
        Case{DType::boolean, true, true}, Case{DType::int32, false, true},
        Case{DType::uint32, false, true}, Case{DType::fp32, false, false}}) {
    INFO(std::string(to_string(predicate.dtype)));
    const Tile chosen = core.sbuf.tile(predicate.dtype, 2, 4);
    // Bits beyond the lowest byte count.
    const float yes = size_of(predicate.dtype) == 1 ? 1.0f : 256.0f;
    core.vector.memset(chosen, 0).memset(chosen.columns(1, 4, 2), yes).memset(y, -1);
    const std::vector<float> wanted{-1, 2, -1, 4, -1, 6, -1, 8};
    const std::string broken = "neuroncore.rule_broken";
    CHECK(id_of([&] { core.vector.select(y, chosen, x, -1); }) ==
          (predicate.select ? "no error" : broken));
    if (predicate.select) CHECK(test.values(y) == wanted);
    core.vector.memset(y, -1);
    CHECK(id_of([&] { core.vector.copy_predicated(y, x, chosen); }) ==
          (predicate.copy ? "no error" : broken));
    if (predicate.copy) CHECK(test.values(y) == wanted);
  }
  const Tile wide = core.sbuf.tile(DType::uint32, 2, 4), flags = core.sbuf.tile(DType::uint8, 2, 4);
  core.vector.memset(wide, 1).memset(flags, 1);
  CHECK(id_of([&] { core.vector.select(y, flags, wide, 0); }) == "neuroncore.rule_broken");
  CHECK(id_of([&] {
          core.vector.tensor_scalar_cumulative(wide, wide, Alu::multiply, 1, Alu::add);
        }) == "neuroncore.rule_broken");
}

TEST_CASE("GpSimd computes in integers of 32 bits", "[unit][neuroncore]") {
  TestCore test;
  nc::Core& core = test.core;
  using Words = std::vector<std::uint32_t>;
  const Tile a = tile_of<std::uint32_t>(test, 1, {4294967295u, 16777217u, 3000000000u});
  const Tile b = tile_of<std::uint32_t>(test, 1, {2u, 16777217u, 3000000000u});
  const Tile c = core.sbuf.tile(DType::uint32, 1, 3);
  core.gpsimd.tensor_tensor(c, a, b, Alu::add);
  CHECK(in<std::uint32_t>(test, c) == Words{1u, 33554434u, 1705032704u});
  core.gpsimd.tensor_tensor(c, b, a, Alu::subtract);
  CHECK(in<std::uint32_t>(test, c) == Words{3u, 0u, 0u});
  core.gpsimd.tensor_tensor(c, a, b, Alu::multiply);
  CHECK(in<std::uint32_t>(test, c) == Words{4294967294u, 33554433u, 3000000000u * 3000000000u});
  // Two types meet in fp32, and the result saturates.
  const Tile negative = tile_of<std::int32_t>(test, 1, {-5, -16777217, -1});
  core.gpsimd.tensor_tensor(c, a, negative, Alu::multiply);
  CHECK(in<std::uint32_t>(test, c) == Words{0, 0, 0});
  // Over partitions.
  const Tile column = tile_of<std::uint32_t>(test, 3, {5u, 4294967295u, 7u});
  const Tile one = core.sbuf.tile(DType::uint32, 1, 1);
  core.gpsimd.partition_reduce(one, column, Alu::maximum);
  CHECK(in<std::uint32_t>(test, one) == Words{4294967295u});
  core.gpsimd.partition_reduce(one, column, Alu::add);
  CHECK(in<std::uint32_t>(test, one) == Words{11u});
  const Tile halves = tile_of<std::uint16_t>(test, 3, {0x00F0, 0x8001, 0x0100});
  const Tile half = core.sbuf.tile(DType::uint16, 1, 1);
  core.gpsimd.partition_reduce(half, halves, Alu::bitwise_or);
  CHECK(in<std::uint16_t>(test, half) == std::vector<std::uint16_t>{0x81F1});
  // Positions: int32 arithmetic, then the type of dst.
  const nc::Affine affine{.loops = {{16777217, 3}}, .offset = -16777217};
  core.gpsimd.iota(c, affine);
  CHECK(in<std::uint32_t>(test, c) == Words{0, 0, 16777217});
  const Tile short_one = core.sbuf.tile(DType::int16, 1, 3);
  core.gpsimd.iota(short_one, affine);
  CHECK(in<std::int16_t>(test, short_one) == std::vector<std::int16_t>{-32768, 0, 32767});
}

TEST_CASE("the same bytes as an integer without sign", "[unit][neuroncore]") {
  TestCore test;
  const Tile words = test.tile(DType::bf16, 1, std::vector<float>{-1, 2});
  CHECK(in<std::uint16_t>(test, words.as(DType::uint16)) ==
        std::vector<std::uint16_t>{0xBF80, 0x4000});
  CHECK(test.values(words.as(DType::uint16)) == std::vector<float>{0xBF80, 0x4000});
  CHECK(test.values(words.as(DType::int16)) == std::vector<float>{-16512, 16384});
  // Turned, on the Vector engine.
  const Tile block = tile_of<std::uint16_t>(test, 2, {1, 2, 3, 65533, 65534, 65535});
  const Tile turned = test.core.sbuf.tile(DType::uint16, 3, 2);
  test.core.vector.transpose(turned, block);
  CHECK(in<std::uint16_t>(test, turned) ==
        std::vector<std::uint16_t>{1, 65533, 2, 65534, 3, 65535});
}
