// soma's own reader of numbers beside the standard library's.
#include <soma/base/number_text.hpp>

#include "catch.hpp"

#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <system_error>

namespace {

#if defined(__cpp_lib_to_chars)
// 1 if the two readers differ: in the value, in what they took, or in the error.
template <class Float>
int differs(std::string_view text) {
  Float own = 7, standard = 7;
  const auto mine = soma::detail::own_from_chars(text, own);
  const auto theirs = std::from_chars(text.data(), text.data() + text.size(), standard);
  const bool same = (own != own && standard != standard) ||
                    (own == standard && std::signbit(own) == std::signbit(standard));
  return mine.ptr == theirs.ptr && mine.ec == theirs.ec && same ? 0 : 1;
}

int differs_in_any(std::string_view text) { return differs<float>(text) + differs<double>(text); }

// Texts of every length: the shortest of a random number, with some digits changed; many digits;
// and texts that lie on the middle between two numbers, or just beside it.
template <class Random>
std::string random_text(Random& random) {
  std::array<char, 1200> text;
  const auto bits = static_cast<std::uint64_t>(random());
  const auto number = std::bit_cast<double>(bits);
  const auto narrow = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  const auto print = [&](auto value, auto... format) {
    return std::string(text.data(),
                       std::to_chars(text.data(), text.data() + text.size(), value, format...).ptr);
  };
  switch (random() % 6) {
    case 0:
      return print(number);
    case 1:
      return print(narrow);
    case 2:
      return print(static_cast<double>(bits >> random() % 64) / 1000);
    case 3: {  // halfway between two floats, exactly
      const float next = std::nextafter(narrow, std::numeric_limits<float>::infinity());
      return print((static_cast<double>(narrow) + static_cast<double>(next)) / 2,
                   std::chars_format::scientific, 150);
    }
    case 4:  // all digits of a double, and one more
      return print(number, std::chars_format::scientific, 780) + (random() % 2 != 0 ? "" : "1");
    default:
      return std::to_string(random()) + "." + std::to_string(random()) + "e" +
             std::to_string(static_cast<int>(random() % 700) - 350);
  }
}

int random_differences(int count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  int found = 0;
  for (int i = 0; i < count; ++i) found += differs_in_any(random_text(random));
  return found;
}

TEST_CASE("numbers are read as the standard library reads them", "[unit][number_text]") {
  for (const std::string_view text : {"0",
                                      "-0",
                                      "1",
                                      "-1.5",
                                      "1e5",
                                      "1E+5",
                                      "1e-5",
                                      ".5",
                                      "5.",
                                      ".",
                                      "",
                                      "-",
                                      "+1",
                                      " 1",
                                      "e5",
                                      "1e",
                                      "1e+",
                                      "1ex",
                                      "1.2.3",
                                      "0x10",
                                      "inf",
                                      "-inf",
                                      "INFINITY",
                                      "infinit",
                                      "nan",
                                      "-NaN",
                                      "nan(1)",
                                      "nan(",
                                      "nan(x y)",
                                      "in",
                                      "1e400",
                                      "-1e400",
                                      "1e-400",
                                      "3.4028235e38",
                                      "3.4028236e38",
                                      "3.5e38",
                                      "1.4e-45",
                                      "7e-46",
                                      "8e-46",
                                      "1.7976931348623157e308",
                                      "1.7976931348623159e308",
                                      "4.9e-324",
                                      "2.4703282292062327e-324",
                                      "2.4703282292062328e-324",
                                      "2.2250738585072011e-308",
                                      "9007199254740993",
                                      "9007199254740992.9999999999999999999",
                                      "16777217",
                                      "1.000000059604644775390625",
                                      "1.00000005960464477539062500000000001",
                                      "123456789012345678901234567890",
                                      "0.000000000000000000000000000000000000000000001",
                                      "1e99999999999999999999",
                                      "0e99999999999",
                                      "1e-99999999999999999999"}) {
    CAPTURE(text);
    CHECK(differs<float>(text) == 0);
    CHECK(differs<double>(text) == 0);
  }
  CHECK(random_differences(20'000, 1) == 0);
}

TEST_CASE("very many numbers are read as the standard library reads them", "[slow][number_text]") {
  CHECK(random_differences(10'000'000, 2) == 0);
}
#endif

TEST_CASE("the first number of a text is read", "[unit][number_text]") {
  double value = 0;
  const std::string_view text = "-12.5e1,7";
  const auto found = soma::number_from(text, value);
  CHECK(value == -125);
  CHECK(found.ptr == text.data() + 7);
  std::int32_t whole = 0;
  CHECK(soma::number_from("42x", whole).ec == std::errc());
  CHECK(whole == 42);
  float narrow = 0;
  CHECK(soma::detail::own_from_chars("0.1", narrow).ec == std::errc());
  CHECK(narrow == 0.1f);
}

}  // namespace
