// Scans, running values, the eight largest, shuffles and random numbers of the Vector engine.

#include "neuroncore/test_core.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

using namespace soma_test;
using nc::Alu;
using nc::Tile;
using soma::DType;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

float two(Alu op, float a, float b) {
  const volatile float result = op == Alu::add        ? a + b
                                : op == Alu::subtract ? a - b
                                : op == Alu::multiply ? a * b
                                : op == Alu::maximum  ? (a > b ? a : b)
                                                      : (a < b ? a : b);
  return result;
}
constexpr Alu folds[] = {Alu::add, Alu::subtract, Alu::multiply, Alu::maximum, Alu::minimum};

}  // namespace

TEST_CASE("tensor_tensor_scan carries its state in fp32", "[unit][neuroncore]") {
  TestCore test;
  const std::size_t rows = 5, columns = 33;
  const std::vector<float> x = steps(rows * columns, 1, 0x1p-22f, 1);
  const std::vector<float> y = steps(rows * columns, 1, 0x1p-22f, 2),
                           start = steps(rows, 1, 0x1p-9f, 3);
  const Tile a = test.tile(DType::fp32, rows, x), b = test.tile(DType::fp32, rows, y);
  const Tile initial = test.tile(DType::fp32, rows, start);
  for (const DType out : {DType::fp32, DType::bf16})
    for (const Alu op0 : folds)
      for (const Alu op1 : folds)
        for (const bool reverse0 : {false, true})
          for (const bool reverse1 : {false, true}) {
            const Tile dst = test.core.sbuf.tile(out, rows, columns);
            nc::Core::Scope scope(test.core);
            test.core.vector.tensor_tensor_scan(dst, a, b, initial, op0, op1,
                                                {.reverse0 = reverse0, .reverse1 = reverse1});
            const std::vector<float> values = test.values(dst);
            bool good = true;
            for (std::size_t p = 0; p < rows; ++p) {
              float state = start[p];
              for (std::size_t i = p * columns; i < (p + 1) * columns; ++i) {
                state = reverse0 ? two(op0, state, x[i]) : two(op0, x[i], state);
                state = reverse1 ? two(op1, y[i], state) : two(op1, state, y[i]);
                good = good && values[i] == through(out, state);
              }
            }
            INFO(to_string(op0) << " " << to_string(op1));
            CHECK(good);
          }
  // A constant to start from, and in place.
  test.core.vector.tensor_tensor_scan(a, a, b, 0.5f, Alu::multiply, Alu::add);
  CHECK(test.values(a)[0] == two(Alu::add, two(Alu::multiply, x[0], 0.5f), y[0]));
}

TEST_CASE("tensor_scalar_cumulative starts from the operator's identity", "[unit][neuroncore]") {
  TestCore test;
  const std::size_t rows = 3, columns = 40;
  const std::vector<float> x = steps(rows * columns, 2, 0x1p-20f, 4),
                           s = steps(rows, 2, 0x1p-20f, 5);
  const Tile data = test.tile(DType::fp32, rows, x), scalars = test.tile(DType::fp32, rows, s);
  const Tile dst = test.core.sbuf.tile(DType::fp32, rows, columns);
  const auto expect = [&](Alu op1, float first, const auto& scalar_of) {
    const std::vector<float> values = test.values(dst);
    for (std::size_t p = 0; p < rows; ++p) {
      float state = first;
      for (std::size_t i = p * columns; i < (p + 1) * columns; ++i) {
        state = two(op1, two(Alu::multiply, x[i], scalar_of(p)), state);
        REQUIRE(values[i] == state);
      }
    }
  };
  const float identities[] = {0, 0, 1, -infinity, infinity};
  for (std::size_t i = 0; i < 5; ++i) {
    test.core.vector.tensor_scalar_cumulative(dst, data, Alu::multiply, 0.7f, folds[i]);
    expect(folds[i], identities[i], [](std::size_t) { return 0.7f; });
    test.core.vector.tensor_scalar_cumulative(dst, data, Alu::multiply, scalars, folds[i], 0.25f);
    expect(folds[i], 0.25f, [&](std::size_t p) { return s[p]; });
  }
}

TEST_CASE("max8 finds the eight largest in order", "[unit][neuroncore]") {
  TestCore test;
  for (const std::size_t columns : {8u, 9u, 100u, 16384u}) {
    nc::Core::Scope scope(test.core);
    const std::size_t rows = columns > 1000 ? 2 : 5;
    const std::vector<float> x = steps(rows * columns, 20, 0.5f, columns);  // with many ties
    const Tile src = test.tile(DType::bf16, rows, x),
               dst = test.core.sbuf.tile(DType::fp32, rows, 8);
    test.core.vector.max8(dst, src.reshape({1, columns}));
    const std::vector<float> found = test.values(dst);
    for (std::size_t p = 0; p < rows; ++p) {
      std::vector<float> row(x.begin() + static_cast<std::ptrdiff_t>(p * columns),
                             x.begin() + static_cast<std::ptrdiff_t>((p + 1) * columns));
      std::sort(row.begin(), row.end(), std::greater<>());
      for (std::size_t i = 0; i < 8; ++i) CHECK(found[p * 8 + i] == row[i]);
    }
  }
}

TEST_CASE("find_index8: equal values take one occurrence after the other, absent is -1",
          "[unit][neuroncore]") {
  TestCore test;
  const std::vector<float> data{5, 3, 8, 3, 8, 1, 8, 0, 3, 9};
  const Tile src = test.tile(DType::fp32, 1, data), dst = test.core.sbuf.tile(DType::int32, 1, 8);
  const auto find = [&](const std::vector<float>& values) {
    test.core.vector.find_index8(dst, src, test.tile(DType::fp32, 1, values));
    return test.integers_of(dst);
  };
  CHECK(find({8, 3, 8, 7, 3, 8, 8, 9}) == std::vector<std::int32_t>{2, 1, 4, -1, 3, 6, -1, 9});
  CHECK(find({0, -0.0f, 5, 5, 1, 2, 4, 3}) ==
        std::vector<std::int32_t>{7, -1, 0, -1, 5, -1, -1, 1});
  // Absent: all bits set, whatever they are taken for.
  CHECK(static_cast<std::uint32_t>(find({7, 7, 7, 7, 7, 7, 7, 7})[3]) == 0xFFFFFFFFu);
  CHECK(find({std::nanf(""), 1, 1, 1, 1, 1, 1, 1})[0] == -1);
  // Where max8 found them.
  const Tile best = test.core.sbuf.tile(DType::fp32, 1, 8);
  test.core.vector.max8(best, src).find_index8(dst, src, best);
  CHECK(test.integers_of(dst) == std::vector<std::int32_t>{9, 2, 4, 6, 0, 1, 3, 8});
}

TEST_CASE("match_replace8 goes from the last slot to the first", "[unit][neuroncore]") {
  TestCore test;
  const std::vector<float> data{1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8};
  const Tile src = test.tile(DType::fp32, 1, data);
  const Tile values = test.tile(DType::fp32, 1, std::vector<float>{3, 8, 8, 8, 8, 8, 8, 8});
  const Tile dst = test.core.sbuf.tile(DType::bf16, 1, 11),
             indices = test.core.sbuf.tile(DType::int32, 1, 8);
  test.core.vector.match_replace8(dst, src, values, -5, &indices);
  CHECK(test.integers_of(indices) == std::vector<std::int32_t>{2, 10, 9, 8, 7, 6, 5, 4});
  CHECK(test.values(dst) == std::vector<float>{1, 2, -5, 4, -5, -5, -5, -5, -5, -5, -5});
  // Fewer occurrences than slots: the last slots get them.
  const Tile few = test.tile(DType::fp32, 1, std::vector<float>{8, 7, 8, 7});
  const Tile out = test.core.sbuf.tile(DType::fp32, 1, 4);
  test.core.vector.match_replace8(out, few, values, 0, &indices);
  CHECK(test.integers_of(indices) == std::vector<std::int32_t>{-1, -1, -1, -1, -1, -1, 2, 0});
  CHECK(test.values(out) == std::vector<float>{0, 7, 0, 7});
  // Sixteen largest: the first eight, and what is left without them, in place.
  const std::vector<float> many = steps(128 * 64, 1, 0x1p-20f, 1);
  const Tile wide = test.tile(DType::fp32, 128, many),
             best = test.core.sbuf.tile(DType::fp32, 128, 16);
  test.core.vector.max8(best.columns(0, 8), wide)
      .match_replace8(wide, wide, best.columns(0, 8), -infinity)
      .max8(best.columns(8, 16), wide);
  const std::vector<float> top = test.values(best);
  for (std::size_t p = 0; p < 128; ++p) {
    std::vector<float> row(many.begin() + static_cast<std::ptrdiff_t>(p * 64),
                           many.begin() + static_cast<std::ptrdiff_t>(p * 64 + 64));
    std::sort(row.begin(), row.end(), std::greater<>());
    row.resize(16);
    CHECK(std::equal(row.begin(), row.end(), top.begin() + static_cast<std::ptrdiff_t>(p * 16)));
  }
}

TEST_CASE("stream_shuffle permutes each quadrant", "[unit][neuroncore]") {
  nc::ShuffleMask mask{};
  for (std::size_t i = 0; i < 32; ++i) mask[i] = static_cast<std::uint8_t>((i * 7 + 3) % 32);
  mask[4] = mask[20] = nc::shuffle_keep;
  mask[5] = mask[6];  // a partition may be read twice
  for (const std::size_t rows : {32u, 64u, 96u, 128u})
    for (const DType dtype : {DType::fp32, DType::bf16, DType::uint8}) {
      TestCore test;
      const Tile src = test.core.sbuf.tile(dtype, rows, 3),
                 dst = test.core.sbuf.tile(dtype, rows, 3);
      test.core.gpsimd.iota(src, {.loops = {{1, 3}}, .channel_multiplier = 1});
      test.core.vector.memset(dst, 77);
      const std::vector<float> from = test.values(src);
      const auto expect = [&](const Tile& tile, const auto& kept) {
        const std::vector<float> values = test.values(tile);
        for (std::size_t p = 0; p < rows; ++p)
          for (std::size_t i = 0; i < 3; ++i) {
            const std::size_t entry = mask[p % 32];
            CHECK(values[p * 3 + i] ==
                  (entry == 255 ? kept(p * 3 + i) : from[(p / 32 * 32 + entry) * 3 + i]));
          }
      };
      test.core.vector.stream_shuffle(dst, src, mask);
      expect(dst, [](std::size_t) { return 77.0f; });
      test.core.vector.stream_shuffle(src, src, mask);  // in place
      expect(src, [&](std::size_t i) { return from[i]; });
    }
}

TEST_CASE("rng gives each element the word of its position", "[unit][neuroncore]") {
  TestCore test;
  const nc::DrawPosition position{.draw = {.seed = 3, .stream = 4, .step = 5, .index = 10},
                                  .partition_step = 50};
  for (const DType dtype : {DType::int32, DType::uint32, DType::int16, DType::uint16, DType::int8,
                            DType::uint8, DType::boolean}) {
    const Tile tile = test.core.sbuf.tile(dtype, 32, 50);
    test.core.vector.rng(tile, position);
    const std::vector<std::byte> whole = test.codes(tile);
    for (std::size_t i = 0; i < 1600; ++i) {
      std::uint32_t word = soma::random_word(position.draw, i);
      if (dtype == DType::boolean) word &= 1;
      REQUIRE(std::memcmp(&whole[i * soma::size_of(dtype)], &word, soma::size_of(dtype)) == 0);
    }
    // The same in two pieces.
    nc::DrawPosition right = position;
    right.draw.index += 13;
    test.core.vector.memset(tile, 0);
    test.core.vector.rng(tile.columns(13, 50), right).rng(tile.columns(0, 13), position);
    CHECK(test.codes(tile) == whole);
  }
}
