#pragma once
// The functions of number_text.hpp.

#include <soma/base/number_text.hpp>

#include <soma/base/config.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace SOMA_NAMESPACE::detail {

// A natural number of any size; words from the lowest.
class LargeNumber {
 public:
  explicit LargeNumber(std::uint32_t value) : words_{value} {}

  void multiply_add(std::uint32_t factor, std::uint32_t addend) {
    std::uint64_t carry = addend;
    for (std::uint32_t& word : words_) {
      carry += std::uint64_t{word} * factor;
      word = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
    if (carry != 0) words_.push_back(static_cast<std::uint32_t>(carry));
  }
  // Times 10^power.
  void scale(int power) {
    for (; power >= 9; power -= 9) multiply_add(1'000'000'000, 0);
    for (; power > 0; --power) multiply_add(10, 0);
  }
  void shift_left(std::size_t bits) {
    words_.insert(words_.begin(), bits / 32, 0);
    if (bits % 32 != 0) multiply_add(std::uint32_t{1} << (bits % 32), 0);
  }
  // The number of bits up to the highest 1; 0 for zero.
  std::size_t bits() const {
    for (std::size_t i = words_.size(); i-- > 0;)
      if (words_[i] != 0) return 32 * i + static_cast<std::size_t>(std::bit_width(words_[i]));
    return 0;
  }
  bool at_least(const LargeNumber& other) const {
    const std::size_t size = (std::max)(words_.size(), other.words_.size());
    for (std::size_t i = size; i-- > 0;)
      if (word(i) != other.word(i)) return word(i) > other.word(i);
    return true;
  }
  // Must be at_least(other).
  void subtract(const LargeNumber& other) {
    std::int64_t carry = 0;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      carry += std::int64_t{words_[i]} - std::int64_t{other.word(i)};
      words_[i] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
    }
  }

 private:
  std::uint32_t word(std::size_t i) const { return i < words_.size() ? words_[i] : 0; }

  std::vector<std::uint32_t> words_;
};

// The parts of a number's text.
struct DecimalText {
  bool negative = false;
  std::string_view digits{};  // with the point
  std::int64_t exponent = 0;  // the power of ten, as written
  std::size_t length = 0;     // 0: no number
};

inline DecimalText split_decimal(std::string_view text) {
  DecimalText parts;
  std::size_t at = 0;
  const auto is_digit = [&](std::size_t i) {
    return i < text.size() && text[i] >= '0' && text[i] <= '9';
  };
  if (!text.empty() && text[0] == '-') {
    parts.negative = true;
    at = 1;
  }
  const std::size_t begin = at;
  std::size_t count = 0;
  for (; is_digit(at); ++at) ++count;
  if (at < text.size() && text[at] == '.')
    for (++at; is_digit(at); ++at) ++count;
  if (count == 0) return parts;
  parts.digits = text.substr(begin, at - begin);
  parts.length = at;
  if (at == text.size() || (text[at] != 'e' && text[at] != 'E')) return parts;
  std::size_t here = at + 1;
  const bool below = here < text.size() && text[here] == '-';
  if (here < text.size() && (text[here] == '-' || text[here] == '+')) ++here;
  if (!is_digit(here)) return parts;  // the rest belongs to others
  constexpr std::int64_t most = 100'000'000;
  for (; is_digit(here); ++here)
    parts.exponent = (std::min)(most, parts.exponent * 10 + (text[here] - '0'));
  if (below) parts.exponent = -parts.exponent;
  parts.length = here;
  return parts;
}

// "inf", "infinity", "nan", "nan(...)"; letters of either case. Returns the length, 0 for others.
inline std::size_t named_number(std::string_view text, bool& is_nan) {
  const auto begins = [&](std::string_view name) {
    if (text.size() < name.size()) return false;
    for (std::size_t i = 0; i < name.size(); ++i)
      if ((text[i] | 0x20) != name[i]) return false;
    return true;
  };
  is_nan = begins("nan");
  if (begins("infinity")) return 8;
  if (begins("inf")) return 3;
  if (!is_nan) return 0;
  std::size_t end = 3;
  if (end == text.size() || text[end] != '(') return 3;
  for (++end; end < text.size(); ++end) {
    const char letter = text[end];
    if (letter == ')') return end + 1;
    const bool plain = (letter >= '0' && letter <= '9') || letter == '_' ||
                       ((letter | 0x20) >= 'a' && (letter | 0x20) <= 'z');
    if (!plain) break;
  }
  return 3;
}

// numerator / denominator, which are positive, rounded to nearest even; returns
// infinity or zero where the number is out of range.
template <class Float>
Float rounded_quotient(LargeNumber numerator, LargeNumber denominator) {
  constexpr int precision = std::numeric_limits<Float>::digits;
  constexpr int lowest =
      std::numeric_limits<Float>::min_exponent - precision;  // the smallest last place
  // 2^top <= quotient < 2^(top + 1).
  auto top = static_cast<int>(numerator.bits()) - static_cast<int>(denominator.bits());
  if (top >= 0)
    denominator.shift_left(static_cast<std::size_t>(top));
  else
    numerator.shift_left(static_cast<std::size_t>(-top));
  if (!numerator.at_least(denominator)) {
    --top;
    numerator.shift_left(1);
  }
  const int place = (std::max)(top - precision + 1, lowest);
  const int kept = top - place + 1;  // bits before rounding
  std::uint64_t result = 0;
  for (int i = 0; i < kept; ++i) {
    const bool one = numerator.at_least(denominator);
    if (one) numerator.subtract(denominator);
    result = result << 1 | (one ? 1u : 0u);
    numerator.shift_left(1);
  }
  if (kept >= 0) {
    // The next bit decides, and on a tie all those behind it.
    const bool half = numerator.at_least(denominator);
    if (half) numerator.subtract(denominator);
    if (half && (numerator.bits() != 0 || (result & 1) != 0)) ++result;
  }
  if (place + precision > std::numeric_limits<Float>::max_exponent)
    return std::numeric_limits<Float>::infinity();
  // Halves of the power: the whole may not be a number. Both products are exact, up to infinity.
  const auto power = [](int n) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
  };
  const double value = static_cast<double>(result) * power(place / 2) * power(place - place / 2);
  if constexpr (std::numeric_limits<Float>::digits == 24)
    if (value > static_cast<double>((std::numeric_limits<Float>::max)()))
      return std::numeric_limits<Float>::infinity();
  return static_cast<Float>(value);
}

template <class Float>
std::from_chars_result read_decimal(std::string_view text, Float& value) {
  const DecimalText parts = split_decimal(text);
  if (parts.length == 0) {
    bool is_nan = false;
    const std::size_t sign = parts.negative ? 1 : 0;
    const std::size_t length = named_number(text.substr(sign), is_nan);
    if (length == 0) return {text.data(), std::errc::invalid_argument};
    const Float found =
        is_nan ? std::numeric_limits<Float>::quiet_NaN() : std::numeric_limits<Float>::infinity();
    value = parts.negative ? -found : found;
    return {text.data() + sign + length, std::errc()};
  }
  const char* end = text.data() + parts.length;
  // No tie between two doubles has more than 768 digits: those behind it can only break one.
  constexpr int most_digits = 800;
  LargeNumber digits(0);
  int taken = 0;
  std::int64_t exponent = parts.exponent;
  bool behind_point = false, more = false;
  for (const char letter : parts.digits) {
    if (letter == '.') {
      behind_point = true;
      continue;
    }
    if (behind_point) --exponent;
    if (taken == 0 && letter == '0') continue;
    if (taken == most_digits) {
      more = more || letter != '0';
      ++exponent;
      continue;
    }
    digits.multiply_add(10, static_cast<std::uint32_t>(letter - '0'));
    ++taken;
  }
  if (taken == 0) {
    value = parts.negative ? -Float(0) : Float(0);
    return {end, std::errc()};
  }
  if (more) {
    digits.multiply_add(10, 1);
    --exponent;
    ++taken;
  }
  constexpr std::int64_t beyond = 1100;  // decimal places of the largest and the smallest double
  if (exponent + taken > beyond || exponent + taken < -beyond)
    return {end, std::errc::result_out_of_range};
  LargeNumber denominator(1);
  if (exponent >= 0)
    digits.scale(static_cast<int>(exponent));
  else
    denominator.scale(static_cast<int>(-exponent));
  const Float found = rounded_quotient<Float>(std::move(digits), std::move(denominator));
  if (found == 0 || found > (std::numeric_limits<Float>::max)())
    return {end, std::errc::result_out_of_range};
  value = parts.negative ? -found : found;
  return {end, std::errc()};
}

SOMA_INLINE std::from_chars_result own_from_chars(std::string_view text, float& value) {
  return read_decimal(text, value);
}

SOMA_INLINE std::from_chars_result own_from_chars(std::string_view text, double& value) {
  return read_decimal(text, value);
}

}  // namespace SOMA_NAMESPACE::detail
