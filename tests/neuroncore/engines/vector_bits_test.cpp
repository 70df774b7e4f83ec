// These tests check the Vector engine's operators on bits, which take integers as they are, and the
// constants of its instructions.

#include <soma/neuroncore.hpp>

#include "catch.hpp"
#include "neuroncore/test_core.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using namespace soma_test;
using nc::Alu;
using nc::Tile;
using soma::DType;

namespace {

constexpr Alu bitwise[] = {Alu::bitwise_and, Alu::bitwise_or, Alu::bitwise_xor, Alu::left_shift,
                           Alu::right_shift};

std::uint32_t bits(Alu op, std::uint32_t a, std::uint32_t b) {
  return op == Alu::bitwise_and   ? a & b
         : op == Alu::bitwise_or  ? a | b
         : op == Alu::bitwise_xor ? a ^ b
         : op == Alu::left_shift  ? a << b
                                  : a >> b;
}

}  // namespace

TEST_CASE("operators on bits take integers as they are", "[unit][neuroncore]") {
  std::vector<std::int32_t> x, y;
  for (std::uint64_t i = 0; i < 64; ++i) {
    x.push_back(static_cast<std::int32_t>(soma::random_word({.seed = 1}, i)));
    y.push_back(static_cast<std::int32_t>(soma::random_word({.seed = 2}, i) & 31));
  }
  TestCore test;
  const Tile a = test.integers(1, x), b = test.integers(1, y);
  const Tile dst = test.core.sbuf.tile(DType::int32, 1, 64);
  for (const Alu op : bitwise) {
    INFO(std::string(to_string(op)));
    test.core.vector.tensor_tensor(dst, a, b, op);
    const std::vector<std::int32_t> pairs = test.integers_of(dst);
    test.core.vector.tensor_scalar(dst, a, op, 5);
    const std::vector<std::int32_t> constants = test.integers_of(dst);
    test.core.vector.tensor_scalar(dst, b, op, 7, Alu::bitwise_xor, -1,
                                   {.reverse0 = op == Alu::left_shift});
    const std::vector<std::int32_t> both = test.integers_of(dst);
    for (std::size_t i = 0; i < 64; ++i) {
      const auto u = static_cast<std::uint32_t>(x[i]), v = static_cast<std::uint32_t>(y[i]);
      CHECK(static_cast<std::uint32_t>(pairs[i]) == bits(op, u, v));
      CHECK(static_cast<std::uint32_t>(constants[i]) == bits(op, u, 5));
      CHECK(static_cast<std::uint32_t>(both[i]) ==
            ~(op == Alu::left_shift ? bits(op, 7, v) : bits(op, v, 7)));
    }
  }
  const Tile bytes = test.core.sbuf.tile(DType::int8, 1, 2);
  test.put_codes(bytes, std::vector<std::byte>{std::byte{0xF0}, std::byte{0x81}});
  test.core.vector.tensor_scalar(bytes, bytes, Alu::right_shift, 4);
  CHECK(test.values(bytes) == std::vector<float>{15, 8});  // zeros come in
  test.core.vector.tensor_scalar(bytes, bytes, Alu::invert, 0);
  CHECK(test.values(bytes) == std::vector<float>{-16, -9});
}

TEST_CASE("a constant may be of any type of number", "[unit][neuroncore]") {
  TestCore test;
  const Tile dst = test.core.sbuf.tile(DType::fp32, 1, 1);
  const auto written = [&](const nc::Constant& value) {
    test.core.vector.memset(dst, value);
    return test.values(dst)[0];
  };
  CHECK(written(2) == 2);
  CHECK(written(std::size_t{3}) == 3);
  CHECK(written(0.5f) == 0.5f);
  CHECK(written(0.25) == 0.25f);
  CHECK(written(soma::bf16(1.5f)) == 1.5f);
  test.core.vector.tensor_scalar(dst, dst, Alu::add, soma::fp8_e4m3(2.0f));
  CHECK(test.values(dst)[0] == 3.5f);
}

TEST_CASE("constants of operators on bits keep their 32 bits", "[unit][neuroncore]") {
  TestCore test;
  const Tile a = test.integers(1, std::vector<std::int32_t>{-1, 0x12345678});
  const Tile dst = test.core.sbuf.tile(DType::int32, 1, 2);
  const auto masked = [&](const nc::ScalarOperand& mask) {
    test.core.vector.tensor_scalar(dst, a, Alu::bitwise_and, mask);
    return test.integers_of(dst);
  };
  using Pair = std::vector<std::int32_t>;
  CHECK(masked(0x7FFFFFFF) == Pair{0x7FFFFFFF, 0x12345678});
  CHECK(masked(0x0FFFFFFFu) == Pair{0x0FFFFFFF, 0x02345678});
  CHECK(masked(0xFFFFFFFFu) == Pair{-1, 0x12345678});
  CHECK(masked(std::size_t{0x01000001}) == Pair{0x01000001, 0});
  CHECK(masked(INT32_MIN) == Pair{INT32_MIN, 0});
  CHECK(masked(0x1p24f) == Pair{1 << 24, 0});
  // The second of two.
  test.core.vector.tensor_scalar(dst, a, Alu::invert, 0, Alu::bitwise_or, 0x01000001);
  CHECK(test.integers_of(dst) == Pair{0x01000001, ~0x12345678 | 0x01000001});
}
