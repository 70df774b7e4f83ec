// soma's own fused multiply-add beside the machine's, where that is exact: glibc's.
#include <soma/numeric/draw_sequence.hpp>
#include <soma/numeric/fused.hpp>

#include "catch.hpp"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

// Arguments at which something changes: limits, ties, numbers of few bits, and what is no number.
template <class Float>
std::vector<Float> special_numbers() {
  using Limits = std::numeric_limits<Float>;
  std::vector<Float> numbers{0,
                             1,
                             Float(1.5),
                             3,
                             Limits::epsilon(),
                             1 + Limits::epsilon(),
                             1 - Limits::epsilon() / 2,
                             (Limits::max)(),
                             (Limits::max)() / 2,
                             (Limits::min)(),
                             (Limits::min)() - Limits::denorm_min(),
                             (Limits::min)() + Limits::denorm_min(),
                             Limits::denorm_min(),
                             3 * Limits::denorm_min(),
                             Limits::infinity(),
                             Limits::quiet_NaN()};
  for (const int power :
       {-1074, -1050, -537, -149, -140, -75, -60, -25, -24, -12, 12, 24, 64, 127, 511})
    numbers.push_back(std::ldexp(Float(1), power));
  const std::size_t count = numbers.size();
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(-numbers[i]);
  return numbers;
}

template <class Bits, class Float>
bool same(Float a, Float b) {
  return (a != a && b != b) || std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b);
}

// Without inlining, so that the machine's function is called and not computed by the compiler.
template <class Float>
Float of_machine(Float a, Float b, Float c) {
  volatile Float x = a, y = b, z = c;
  return std::fma(x, y, z);
}

std::uint64_t word(soma::DrawSequence& draws) {
  const std::uint64_t high = draws.word();
  return high << 32 | draws.word();
}

// Numbers of any bits, or those whose product is near the addend, where the sum cancels.
template <class Float, class Bits>
std::uint64_t differences(std::uint64_t count, std::uint64_t seed) {
  soma::DrawSequence draws({.seed = seed, .stream = 1});
  std::uint64_t found = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto a = std::bit_cast<Float>(static_cast<Bits>(word(draws)));
    auto b = std::bit_cast<Float>(static_cast<Bits>(word(draws)));
    auto c = std::bit_cast<Float>(static_cast<Bits>(word(draws)));
    if (i % 4 == 1 && std::isfinite(b) && b != 0)
      b = std::ldexp(b, -std::ilogb(b) - (std::isfinite(a) && a != 0 ? std::ilogb(a) : 0));
    if (i % 4 != 0 && std::isfinite(a * b)) {
      const int shift = static_cast<int>(draws.word() % 130) - 65;
      c = std::ldexp(-a * b * (1 + std::ldexp(Float(1), -static_cast<int>(i % 60))),
                     i % 3 == 0 ? 0 : shift);
    }
    found += same<Bits>(soma::detail::exact_fused(a, b, c), of_machine(a, b, c)) ? 0u : 1u;
  }
  return found;
}

template <class Float, class Bits>
std::uint64_t special_differences() {
  const std::vector<Float> numbers = special_numbers<Float>();
  std::uint64_t found = 0;
  for (const Float a : numbers)
    for (const Float b : numbers)
      for (const Float c : numbers)
        found += same<Bits>(soma::detail::exact_fused(a, b, c), of_machine(a, b, c)) ? 0u : 1u;
  return found;
}

}  // namespace

#if defined(__GLIBC__)
TEST_CASE("soma's fused multiply-add has the bits of an exact one", "[unit][fused]") {
  CHECK(special_differences<float, std::uint32_t>() == 0);
  CHECK(special_differences<double, std::uint64_t>() == 0);
  CHECK(differences<float, std::uint32_t>(300'000, 1) == 0);
  CHECK(differences<double, std::uint64_t>(300'000, 2) == 0);
}

TEST_CASE("soma's fused multiply-add over very many arguments", "[slow][fused]") {
  CHECK(differences<float, std::uint32_t>(100'000'000, 3) == 0);
  CHECK(differences<double, std::uint64_t>(100'000'000, 4) == 0);
}
#endif

// Products whose rounding a second rounding undoes: what MinGW's std::fma gets wrong.
TEST_CASE("fused multiply-add rounds once", "[unit][fused]") {
  const float e = std::numeric_limits<float>::epsilon();
  // (1 + e)^2 - (1 + 2e) = e^2.
  CHECK(soma::fused_multiply_add(1 + e, 1 + e, -(1 + 2 * e)) == e * e);
  // The exact sum is just above a tie that double alone would see as one.
  CHECK(soma::fused_multiply_add(1.0f, 1 + e, std::ldexp(1.0f, -24) + std::ldexp(1.0f, -47)) ==
        1 + 2 * e);
  const double d = std::numeric_limits<double>::epsilon();
  CHECK(soma::fused_multiply_add(1 + d, 1 + d, -(1 + 2 * d)) == d * d);
}
