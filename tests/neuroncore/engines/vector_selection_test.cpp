// These tests check the Vector engine's instructions that choose elements: selection, predicated
// copies and dropout.

#include <soma/neuroncore.hpp>

#include "catch.hpp"
#include "neuroncore/test_core.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

using namespace soma_test;
using nc::Alu;
using nc::Tile;
using soma::DType;

TEST_CASE("select and predicated copies", "[unit][neuroncore]") {
  TestCore test;
  const std::vector<float> x = steps(2 * 12, 8, 1, 1), chosen = steps(2 * 12, 1, 1, 2);
  const Tile from = test.tile(DType::bf16, 2, x),
             other = test.tile(DType::fp32, 2, std::vector<float>{7.5f, -9});
  for (const DType type : {DType::uint8, DType::int8, DType::boolean}) {
    const Tile predicate = test.core.sbuf.tile(type, 2, 12),
               dst = test.core.sbuf.tile(DType::fp32, 2, 12);
    const Tile wanted = test.tile(DType::fp32, 2, chosen);
    test.core.vector.tensor_scalar(predicate, wanted, Alu::not_equal, 0.0f);
    test.core.vector.select(dst, predicate, from, other);
    const std::vector<float> selected = test.values(dst);
    test.core.vector.select(dst, predicate, from, -3.0f);
    const std::vector<float> constant = test.values(dst);
    for (std::size_t i = 0; i < x.size(); ++i) {
      CHECK(selected[i] == (chosen[i] != 0 ? x[i] : i < 12 ? 7.5f : -9));
      CHECK(constant[i] == (chosen[i] != 0 ? x[i] : -3));
    }
  }
  // Another rank with as many elements; dst stays where nothing is chosen.
  for (const DType type : {DType::uint8, DType::int32}) {
    const Tile predicate = test.core.sbuf.tile(type, 2, 12),
               dst = test.core.sbuf.tile(DType::bf16, 2, 12);
    test.core.vector.tensor_scalar(predicate, test.tile(DType::fp32, 2, chosen), Alu::not_equal,
                                   0.0f);
    test.core.vector.memset(dst, 100);
    test.core.vector.copy_predicated(dst.reshape({3, 4}), from.reshape({2, 6}),
                                     predicate.reshape({4, 3}));
    const std::vector<float> values = test.values(dst);
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(values[i] == (chosen[i] != 0 ? x[i] : 100));
  }
}

TEST_CASE("dropout zeroes by the element's word and scales nothing", "[unit][neuroncore]") {
  TestCore test;
  const std::vector<float> x = steps(32 * 100, 8, 0x1p-10f, 1);
  const Tile src = test.tile(DType::fp32, 32, x), dst = test.core.sbuf.tile(DType::fp32, 32, 100);
  const nc::DrawPosition position{.draw = {.seed = 5, .index = 77}, .partition_step = 100};
  for (const std::uint64_t threshold :
       {std::uint64_t{0}, std::uint64_t{1} << 30, std::uint64_t{1} << 32}) {
    test.core.vector.dropout(dst, src, threshold, position);
    const std::vector<float> values = test.values(dst);
    for (std::size_t i = 0; i < x.size(); ++i)
      REQUIRE(values[i] == (soma::random_word(position.draw, i) < threshold ? 0 : x[i]));
    const auto zeros = std::count(values.begin(), values.end(), 0.0f);
    CHECK((threshold == 0 ? zeros < 10 : zeros >= (threshold >> 32 != 0 ? 3200 : 640)));
  }
}

TEST_CASE("dropout of nothing changes nothing", "[unit][neuroncore]") {
  TestCore test;
  const std::vector<std::int32_t> x{16777217, -16777217, INT32_MAX, 0};
  const Tile src = test.integers(1, x), dst = test.core.sbuf.tile(DType::int32, 1, 4);
  test.core.vector.dropout(dst, src, 0, {});
  CHECK(test.integers_of(dst) == x);
}
