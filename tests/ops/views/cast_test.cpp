// Casts between integers and floats: one rounding, saturation, NaN, and every rounding mode.

#include <soma/ops/views/cast.hpp>
#include <soma/soma.hpp>

#include "catch.hpp"
#include "support/errors.hpp"
#include "support/floating_dtypes.hpp"
#include "support/stored_run.hpp"

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

using namespace soma;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

Tensor cast_of(Context& context, const Tensor& x, DType dtype, const Rounding& rounding = {}) {
  return run(context, ops::cast, CastSetting{dtype, rounding, {}}, {x})[0];
}

template <class Integer>
std::vector<Integer> cast_floats(Context& context, const std::vector<float>& x,
                                 const Rounding& rounding = {}) {
  const Tensor y = cast_of(context, Tensor::from<float>(context, x, Shape{x.size()}),
                           dtype_of<Integer>, rounding);
  return {y.span<Integer>().begin(), y.span<Integer>().end()};
}

}  // namespace

TEST_CASE("floats become integers: nearest, saturated, NaN as 0", "[unit][cast]") {
  auto context = make_context();
  const std::vector<float> x = {0.5f,     1.5f,      -0.5f,  -1.5f,   2.5f,         126.5f,
                                127.5f,   -128.5f,   254.5f, 255.5f,  -0.6f,        16777215,
                                1e9f,     3e9f,      -3e9f,  9.3e18f, 1e19f,        -1e19f,
                                infinity, -infinity, -0.0f,  1e-40f,  std::nanf("")};
  CHECK(cast_floats<std::int8_t>(context, x) ==
        std::vector<std::int8_t>{0,   2,   0,    -2,  2,   126,  127, -128, 127, 127, -1, 127,
                                 127, 127, -128, 127, 127, -128, 127, -128, 0,   0,   0});
  CHECK(cast_floats<std::uint8_t>(context, x) ==
        std::vector<std::uint8_t>{0,   2,   0, 0,   2,   126, 128, 0, 254, 255, 0, 255,
                                  255, 255, 0, 255, 255, 0,   255, 0, 0,   0,   0});
  CHECK(cast_floats<std::int16_t>(context, x) ==
        std::vector<std::int16_t>{0,     2,      0,     -2,     2,     126,   128,    -128,
                                  254,   256,    -1,    32767,  32767, 32767, -32768, 32767,
                                  32767, -32768, 32767, -32768, 0,     0,     0});
  constexpr std::int32_t most = 0x7FFFFFFF, least = -most - 1;
  CHECK(cast_floats<std::int32_t>(context, x) ==
        std::vector<std::int32_t>{0,    2,     0,    -2,       2,          126,  128,   -128,
                                  254,  256,   -1,   16777215, 1000000000, most, least, most,
                                  most, least, most, least,    0,          0,    0});
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  const auto wide = cast_floats<std::int64_t>(context, x);
  CHECK(wide[13] == 3'000'000'000);
  CHECK(wide[15] == largest);  // 9.3e18 is above 2^63
  CHECK(wide[17] == -largest - 1);
  CHECK(wide[19] == -largest - 1);
  CHECK(cast_floats<std::int64_t>(context, {9.2e18f})[0] == static_cast<std::int64_t>(9.2e18f));
  const Tensor some = Tensor::from<float>(context, {0, -0.0f, 0.1f, -3, std::nanf("")}, Shape{5});
  const Tensor truth = cast_of(context, some, DType::boolean);
  const bool wanted[] = {false, false, true, true, true};
  for (std::size_t i = 0; i < 5; ++i) CHECK((truth.raw()[i] == std::byte{1}) == wanted[i]);
}

TEST_CASE("floats become integers in the rounding that is asked for", "[unit][cast]") {
  auto context = make_context();
  const std::vector<float> x = {2.5f, -2.5f, 2.4f, -2.4f, 2.6f, -2.6f};
  using Numbers = std::vector<std::int8_t>;
  const auto in = [&](RoundingMode mode) { return cast_floats<std::int8_t>(context, x, {mode}); };
  CHECK(in(RoundingMode::nearest_even) == Numbers{2, -2, 2, -2, 3, -3});
  CHECK(in(RoundingMode::nearest_away) == Numbers{3, -3, 2, -2, 3, -3});
  CHECK(in(RoundingMode::toward_zero) == Numbers{2, -2, 2, -2, 2, -2});
  CHECK(in(RoundingMode::up) == Numbers{3, -2, 3, -2, 3, -2});
  CHECK(in(RoundingMode::down) == Numbers{2, -3, 2, -3, 2, -3});
  CHECK(soma_test::id_of([&] { in(RoundingMode::stochastic); }) == "operator.value");
}

TEST_CASE("integers become floats by one rounding", "[unit][cast]") {
  auto context = make_context();
  std::vector<std::int64_t> x = {0,
                                 1,
                                 -1,
                                 257,  // between two bf16 numbers
                                 (1 << 24) + 1,
                                 (std::int64_t{1} << 32) + (std::int64_t{1} << 24) + 1,
                                 std::numeric_limits<std::int64_t>::max(),
                                 std::numeric_limits<std::int64_t>::min()};
  // Just above a tie of bf16: rounding to fp32 first would make it one.
  x.push_back((std::int64_t{257} << 24) + 1);
  x.push_back(-(std::int64_t{257} << 24) - 1);
  for (std::size_t i = 0; i < 2000; ++i) {
    const std::int64_t word = static_cast<std::int64_t>(
        std::uint64_t{random_word({.seed = 4}, 2 * i)} << 32 | random_word({.seed = 4}, 2 * i + 1));
    x.push_back(word >> i % 60);
  }
  const Tensor wide = Tensor::from<std::int64_t>(context, x, Shape{x.size()});
  for (const DType dtype : soma_test::floating_dtypes)
    for (const RoundingMode mode : {RoundingMode::nearest_even, RoundingMode::toward_zero,
                                    RoundingMode::up, RoundingMode::nearest_away}) {
      const Tensor y = cast_of(context, wide, dtype, {mode});
      const std::span<const std::byte> bytes(y.raw(), x.size() * size_of(dtype));
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        // A double holds 53 bits; what is beyond them sets the last one.
        double exact = static_cast<double>(x[i] & ~std::int64_t{0x7FF});
        if ((x[i] & 0x7FF) != 0) {
          exact = static_cast<double>(x[i]);
          const std::int64_t magnitude = x[i] < 0 ? -x[i] : x[i];
          if (magnitude >> 53 != 0)
            exact = std::copysign(static_cast<double>((magnitude & ~std::int64_t{0x7FF}) | 0x400),
                                  exact);
        }
        const float wanted =
            decode(format_of(dtype), encode(format_of(dtype), exact, Rounding{mode}));
        const float given = soma_test::value_of(dtype, bytes, i);
        wrong += !soma_test::same_bits(std::span(&given, 1), std::span(&wanted, 1));
      }
      INFO(std::string(to_string(dtype)) << ", rounding " << static_cast<int>(mode));
      CHECK(wrong == 0);
    }
  const Tensor narrow = cast_of(context, wide, DType::int32);
  for (std::size_t i = 0; i < x.size(); ++i)
    CHECK(std::int64_t{narrow.span<std::int32_t>()[i]} ==
          std::min(std::max(x[i], std::int64_t{INT32_MIN}), std::int64_t{INT32_MAX}));
}

TEST_CASE("image bytes become floats and come back", "[unit][cast]") {
  auto context = make_context();
  std::vector<std::uint8_t> bytes(5000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i * 7);
  const Tensor x = Tensor::from<std::uint8_t>(context, bytes, Shape{2, 50, 50});
  for (const DType dtype : {DType::fp32, DType::fp16, DType::bf16}) {
    const Tensor y = cast_of(context, x, dtype);
    const Tensor back = cast_of(context, y, DType::uint8);
    CHECK(std::vector<std::uint8_t>(back.span<std::uint8_t>().begin(),
                                    back.span<std::uint8_t>().end()) == bytes);
  }
  // A view, and no gradient through integers.
  const Tensor turned = cast_of(context, x.transpose(1, 2), DType::fp32);
  CHECK(turned.span<float>()[1] == static_cast<float>(bytes[50]));
  const Var w = Var::parameter(context, Tensor::full(context, Shape{3}, 2.7f));
  Tape tape(context);
  const Var whole = cast(tape, cast(tape, w, DType::int32), DType::fp32);
  tape.backward(sum(tape, mul(tape, whole, w)));
  for (const float gradient : w.gradient().values.span<float>()) CHECK(gradient == 3.0f);
}
