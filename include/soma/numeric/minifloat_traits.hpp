#pragma once
// Support for minifloat in the standard library: numeric_limits, hash, streams, text. For
// std::format include numeric/minifloat_format.hpp.

#include <soma/numeric/minifloat.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <iosfwd>
#include <limits>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

// The shortest decimal text that reads back as the same float: "0.1015625", "inf", "nan".
template <FloatFormat F>
std::string to_string(minifloat<F> value) {
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(value));
  return std::string(buffer, result.ptr);
}

// Writes the number as a float, with the stream's own flags and precision.
template <FloatFormat F, class Character, class Traits>
std::basic_ostream<Character, Traits>& operator<<(std::basic_ostream<Character, Traits>& out,
                                                  minifloat<F> value) {
  return out << static_cast<float>(value);
}

}  // namespace SOMA_NAMESPACE

template <soma::FloatFormat F>
class std::numeric_limits<soma::minifloat<F>> {
  using Number = soma::minifloat<F>;
  // floor(digits * log10(2)) and friends in integers: 30103 / 100000 is log10(2) to five digits,
  // enough below 2^16.
  static constexpr int decimal(int binary) {
    const int product = binary * 30103;
    return product >= 0 ? product / 100000 : -((-product + 99999) / 100000);
  }
  // The magnitude code of min(); the code of max() where no number is normal (one exponent bit,
  // taken by infinity).
  static constexpr std::uint32_t smallest_normal =
      (std::min)(F.has_zero() ? std::uint32_t{1} << F.mantissa_bits : 0, F.max_finite_code());

 public:
  static constexpr bool is_specialized = true;
  static constexpr bool is_signed = F.is_signed;
  static constexpr bool is_integer = false;
  static constexpr bool is_exact = false;
  static constexpr bool has_infinity = F.has_infinity();
  static constexpr bool has_quiet_NaN = F.has_nan();
  static constexpr bool has_signaling_NaN = false;  // payloads are kept, but no operation traps
  static constexpr bool is_iec559 = F.specials == soma::Specials::ieee && F.is_signed &&
                                    F.subnormals == soma::Subnormals::kept &&
                                    F.resolved_overflow() == soma::Overflow::infinity;
  static constexpr bool is_bounded = true;
  static constexpr bool is_modulo = false;
  static constexpr bool traps = false;
  static constexpr bool tinyness_before = false;
  static constexpr std::float_round_style round_style = std::round_to_nearest;
  static constexpr std::float_denorm_style has_denorm =
      F.subnormals == soma::Subnormals::kept ? std::denorm_present : std::denorm_absent;
  static constexpr bool has_denorm_loss = false;
  static constexpr int radix = 2;
  static constexpr int digits = F.mantissa_bits + 1;
  static constexpr int digits10 = decimal(digits - 1);
  static constexpr int max_digits10 = decimal(digits) + 2;
  static constexpr int min_exponent = F.min_normal_exponent() + 1;
  static constexpr int max_exponent = F.max_exponent() + 1;
  // The powers of ten between min() and max().
  static constexpr int min_exponent10 = [] {
    const double smallest =
        std::bit_cast<double>(static_cast<std::uint64_t>(1022 + min_exponent) << 52);
    int n = 0;
    for (double power = 1; power / 10 >= smallest; power /= 10) --n;
    for (double power = 1; power < smallest; power *= 10) ++n;
    return n;
  }();
  static constexpr int max_exponent10 = [] {
    const double largest = soma::decode(F, F.max_finite_code());
    int n = 0;
    for (double power = 1; power * 10 <= largest; power *= 10) ++n;
    for (double power = 1; power > largest; power /= 10) --n;
    return n;
  }();

  // Smallest positive normal number.
  static constexpr Number(min)() noexcept { return Number::from_code(smallest_normal); }
  static constexpr Number(max)() noexcept { return Number::from_code(F.max_finite_code()); }
  static constexpr Number lowest() noexcept {
    if constexpr (F.is_signed)
      return Number::from_code(F.max_finite_code() | F.sign_mask());
    else
      return Number::from_code(0);
  }
  static constexpr Number epsilon() noexcept {
    return Number(soma::detail::two_to(-F.mantissa_bits));
  }
  static constexpr Number round_error() noexcept { return Number(0.5f); }
  static constexpr Number infinity() noexcept {
    return Number::from_code(F.has_infinity() ? F.infinity_code() : 0);
  }
  static constexpr Number quiet_NaN() noexcept {
    return Number::from_code(F.has_nan() ? F.quiet_nan_code() : 0);
  }
  static constexpr Number signaling_NaN() noexcept { return quiet_NaN(); }
  static constexpr Number denorm_min() noexcept { return Number::from_code(F.min_positive_code()); }
};

// Equal numbers have equal hashes: -0 and +0 too.
template <soma::FloatFormat F>
struct std::hash<soma::minifloat<F>> {
  std::size_t operator()(soma::minifloat<F> value) const noexcept {
    return std::hash<float>{}(static_cast<float>(value));
  }
};
