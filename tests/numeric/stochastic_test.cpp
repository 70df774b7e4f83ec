// Stochastic rounding: exact probabilities by going through all random words, and the full width by
// statistics. Random numbers come from fixed seeds, so a statistical test either always passes or
// always fails; the false-alarm rates say how likely a correct implementation would have failed
// when the seed was chosen.
#include "catch.hpp"
#include "mismatches.hpp"
#include "reference_codec.hpp"
#include "samples.hpp"

#include <soma/numeric/codec.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/numeric/formats.hpp>
#include <soma/numeric/minifloat.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

using namespace soma_test;
using soma::Rounding;
namespace formats = soma::formats;

namespace {

Rounding stochastic(int bits) {
  return {RoundingMode::stochastic, static_cast<std::uint8_t>(bits)};
}

// fp32, which has nothing to round away from fp32 inputs, is left out.
std::vector<FloatFormat> rounded_formats() {
  std::vector<FloatFormat> list;
  for (const auto& [name, format] : soma::named_formats)
    if (format.mantissa_bits < 23) list.push_back(format);
  return list;
}

// 200 values a format: among its normal and subnormal numbers, below the smallest, just below and
// beyond overflow.
std::vector<float> spread_values(const ReferenceCodec& reference) {
  Sequence sequence(404);
  std::vector<float> values;
  const std::uint64_t count = reference.finite_count();
  const std::uint64_t subnormals = std::uint64_t{1} << reference.format().mantissa_bits;
  const auto between = [&](std::uint64_t code) {
    const double low = reference.magnitude(code), high = reference.magnitude(code + 1);
    const double fraction = std::ldexp(static_cast<double>(sequence.next() >> 11), -53);
    values.push_back(static_cast<float>(low + fraction * (high - low)));
  };
  for (int i = 0; i < 80; ++i) between(sequence.next() % count);
  for (int i = 0; i < 40; ++i) between(sequence.next() % std::min(subnormals, count));
  for (int i = 0; i < 40; ++i) {  // down to 2^-40 of the smallest positive number
    const double smallest =
        reference.magnitude(0) > 0 ? reference.magnitude(0) : reference.magnitude(1);
    values.push_back(static_cast<float>(std::ldexp(smallest * 0.75, -i)));
  }
  for (int i = 0; i < 30; ++i) between(count - 1);
  for (int i = 0; i < 10; ++i)
    values.push_back(
        static_cast<float>(std::min(std::ldexp(reference.magnitude(count), i), 0x1.fffffep127)));
  if (reference.format().is_signed)
    for (std::size_t i = 0; i < values.size(); i += 3) values[i] = -values[i];
  return values;
}

// The two results that words can lead to, and how many of 2^bits words lead to the one farther from
// zero.
struct Outcome {
  std::uint32_t lower, upper;
  std::uint64_t words_up;
};

Outcome wanted_outcome(const ReferenceCodec& reference, float value, int bits) {
  const RoundingMode away = std::signbit(value) ? RoundingMode::down : RoundingMode::up;
  const Outcome outcome{reference.encode(value, RoundingMode::toward_zero),
                        reference.encode(value, away), reference.words_up(value, bits)};
  // Values at or beyond the number after the largest overflow for every word; toward_zero does not
  // show that.
  if (outcome.words_up == std::uint64_t{1} << bits)
    return {outcome.upper, outcome.upper, outcome.words_up};
  return outcome;
}

}  // namespace

TEST_CASE("all words: the probability is the discarded fraction, truncated", "[unit][exhaustive]") {
  for (const FloatFormat& format : rounded_formats()) {
    const ReferenceCodec reference(format);
    Mismatches result;
    const std::vector<float> values = spread_values(reference);
    CHECK(values.size() == 200);
    for (const float value : values)
      for (const int bits : {4, 8, 12, 16}) {
        const Outcome wanted = wanted_outcome(reference, value, bits);
        const std::uint64_t words = std::uint64_t{1} << bits;
        std::uint64_t up = 0, stray = 0, falls = 0;
        bool was_up = false;
        for (std::uint64_t word = 0; word < words; ++word) {
          const auto random = static_cast<std::uint32_t>(word << (32 - bits));
          const std::uint32_t code = soma::encode(format, value, stochastic(bits), random);
          const bool is_up = code == wanted.upper && wanted.words_up > 0;
          up += is_up;
          stray += !is_up && code != wanted.lower;
          falls += was_up && !is_up;  // a larger word never gives a smaller magnitude
          was_up = is_up;
        }
        result.expect(
            (up == wanted.words_up || wanted.upper == wanted.lower) && stray == 0 && falls == 0,
            [&](auto& out) {
              out << format << ", " << bits << " bits: " << value << " went up for " << up
                  << " words, wanted " << wanted.words_up << "; " << stray << " stray, " << falls
                  << " falls";
            });
      }
    CHECK_NONE(result);
  }
}

// For widths whose words cannot all be tried: the last word that stays and the first that goes up.
// With the case above, which shows that results ascend with the word, this is the exact probability
// again.
TEST_CASE("every width: the word where rounding up begins", "[unit]") {
  for (const FloatFormat& format : rounded_formats()) {
    const ReferenceCodec reference(format);
    Mismatches result;
    for (const float value : spread_values(reference))
      for (int bits = 1; bits <= 32; ++bits) {
        const Outcome wanted = wanted_outcome(reference, value, bits);
        const std::uint64_t words = std::uint64_t{1} << bits, first_up = words - wanted.words_up;
        const auto check = [&](std::uint64_t word, std::uint32_t code) {
          const auto random = static_cast<std::uint32_t>(word << (32 - bits));
          result.expect(soma::encode(format, value, stochastic(bits), random) == code,
                        [&](auto& out) {
                          out << format << ", " << bits << " bits: " << value << " with word "
                              << word << ", first up is " << first_up;
                        });
        };
        if (first_up > 0) check(first_up - 1, wanted.lower);
        if (first_up < words) check(first_up, wanted.upper);
      }
    CHECK_NONE(result);
  }
}

// Expectation over all words, in units of the target's spacing: not above the value, and less than
// 2^-bits below it.
TEST_CASE("the bias is toward zero and below 2^-bits of the spacing", "[unit][exhaustive]") {
  for (const FloatFormat& format : rounded_formats()) {
    const ReferenceCodec reference(format);
    Mismatches result;
    for (const float value : spread_values(reference)) {
      const double x = std::fabs(value);
      if (x < reference.magnitude(0) || x >= reference.magnitude(reference.finite_count() - 1))
        continue;
      const double low =
          std::fabs(soma::decode(format, soma::encode(format, value, Rounding::toward_zero)));
      const Rounding outward = std::signbit(value) ? Rounding::down : Rounding::up;
      const double high = std::fabs(soma::decode(format, soma::encode(format, value, outward)));
      for (const int bits : {4, 8, 12}) {
        const std::uint64_t words = std::uint64_t{1} << bits;
        double sum = 0;  // sums whole multiples of the spacing: exact
        for (std::uint64_t word = 0; word < words; ++word)
          sum += std::fabs(soma::decode(
                     format, soma::encode(format, value, stochastic(bits),
                                          static_cast<std::uint32_t>(word << (32 - bits))))) -
                 low;
        const double bias = sum / static_cast<double>(words) - (x - low);
        const double limit = std::ldexp(high - low, -bits);
        result.expect(low == high ? bias == 0 : bias <= 0 && bias > -limit, [&](auto& out) {
          out << format << ", " << bits << " bits: " << value << " has bias " << bias << ", limit "
              << limit;
        });
      }
    }
    CHECK_NONE(result);
  }
}

TEST_CASE("a representable value never moves, whatever the word", "[unit][exhaustive]") {
  Sequence sequence(12);
  for (const FloatFormat& format : rounded_formats()) {
    const ReferenceCodec reference(format);
    Mismatches result;
    for (std::uint64_t wide = 0; wide < reference.code_count(); ++wide) {
      const auto code = static_cast<std::uint32_t>(wide);
      const float value = soma::decode(format, code);
      const auto check = [&](int bits, std::uint32_t random) {
        result.expect(soma::encode(format, value, stochastic(bits), random) == code,
                      [&](auto& out) {
                        out << format << ": code " << code << " moved, word " << random << " of "
                            << bits << " bits";
                      });
      };
      if (format.bits() <= 8)
        for (std::uint32_t word = 0; word < 256; ++word) check(8, word << 24);
      for (const int bits : {1, 16, 32})
        for (const std::uint32_t random :
             {0u, 1u, 0x7FFFFFFFu, 0x80000000u, ~0u, sequence.bits32()})
          check(bits, random);
    }
    CHECK_NONE(result);
  }
}

TEST_CASE("only the top random_bits of the word count", "[unit]") {
  Mismatches result;
  Sequence sequence(77);
  for (const FloatFormat& format : rounded_formats())
    for (const float value : spread_values(ReferenceCodec(format)))
      for (const int bits : {1, 3, 8, 15, 16, 17, 31}) {
        const std::uint32_t random = sequence.bits32();
        const std::uint32_t below = ~std::uint32_t{0} >> bits;
        result.expect(soma::encode(format, value, stochastic(bits), random | below) ==
                          soma::encode(format, value, stochastic(bits), random & ~below),
                      [&](auto& out) { out << format << " " << value << " " << bits; });
      }
  CHECK_NONE(result);
}

TEST_CASE("overflow: between the largest number and the next, as likely as the fraction says",
          "[unit]") {
  // 240 to 256 in e4m3: 252 is three quarters of the way.
  struct Case {
    Overflow policy;
    std::uint32_t beyond;
  };
  for (const auto& [policy, beyond] :
       {Case{Overflow::infinity, 0x78}, {Overflow::nan, 0x7C}, {Overflow::saturate, 0x77}}) {
    const FloatFormat format = formats::fp8_e4m3.with(policy);
    for (std::uint32_t word = 0; word < 16; ++word) {
      CHECK(soma::encode(format, 252.0f, stochastic(4), word << 28) ==
            (word >= 4 ? beyond : 0x77u));
      CHECK(soma::encode(format, -252.0f, stochastic(4), word << 28) ==
            ((word >= 4 ? beyond : 0x77u) | 0x80));
      CHECK(soma::encode(format, 256.0f, stochastic(4), word << 28) == beyond);
      CHECK(soma::encode(format, 1e30f, stochastic(4), word << 28) == beyond);
      CHECK(soma::encode(format, INFINITY, stochastic(4), word << 28) == beyond);
    }
  }
}

TEST_CASE("flushed subnormals: the smallest normal number or zero", "[unit]") {
  FloatFormat format = formats::fp8_e5m2;
  format.subnormals = Subnormals::flushed;
  // 3.25 * 2^-16 lies between the subnormal 3 * 2^-16, which is flushed, and the normal 4 * 2^-16.
  for (std::uint32_t word = 0; word < 16; ++word) {
    CHECK(soma::encode(format, 3.25f * 0x1p-16f, stochastic(4), word << 28) ==
          (word >= 12 ? 0x04u : 0u));
    CHECK(soma::encode(format, -3.25f * 0x1p-16f, stochastic(4), word << 28) ==
          (word >= 12 ? 0x84u : 0x80u));
    CHECK(soma::encode(format, 2.75f * 0x1p-16f, stochastic(4), word << 28) == 0);
  }
}

// With all 32 bits the words cannot be gone through, so they are drawn: 100 values, 20000 words
// each. The sum of the squared standardised counts is chi-square with as many degrees of freedom as
// values; both tails are cut at 4.75 standard deviations of its Wilson-Hilferty transform:
// false-alarm rate 2e-6 a check, 5e-5 for 13 formats twice.
TEST_CASE("full width and default width: frequencies follow the probabilities", "[stat]") {
  constexpr int values = 100, draws = 20000;
  constexpr double z = 4.75;
  const auto quantile = [](double deviations, double degrees) {
    const double t = 2 / (9 * degrees);
    return degrees * std::pow(1 - t + deviations * std::sqrt(t), 3);
  };
  for (const FloatFormat& format : rounded_formats())
    for (const Rounding rounding : {stochastic(32), Rounding::stochastic}) {
      const ReferenceCodec reference(format);
      const int bits = random_bits(rounding, format);
      Sequence sequence(31);
      double chi_square = 0, degrees = 0;
      std::uint64_t index = 0;
      for (int i = 0; i < values; ++i) {
        // Fractions from 0.05 to 0.95, where a count of 20000 is near enough to normal.
        const std::uint64_t code = sequence.next() % (reference.finite_count() - 1);
        const double low = reference.magnitude(code), high = reference.magnitude(code + 1);
        const auto value = static_cast<float>(low + (high - low) * (0.05 + 0.009 * i));
        const double p = std::ldexp(static_cast<double>(reference.words_up(value, bits)), -bits);
        if (!(p > 0.01 && p < 0.99))
          continue;  // tf32's subnormals are so near fp32's that a fraction may be lost
        int up = 0;
        for (int j = 0; j < draws; ++j) {
          const std::uint32_t word =
              soma::rounding_word({.seed = 2718, .stream = 9}, bits, index++);
          up +=
              std::fabs(soma::decode(format, soma::encode(format, value, rounding, word))) == high;
        }
        const double deviation = up - draws * p;
        degrees += 1;
        chi_square += deviation * deviation / (draws * p * (1 - p));
      }
      INFO(format << ", " << bits << " bits");
      CHECK(degrees > 90);
      CHECK(chi_square > quantile(-z, degrees));
      CHECK(chi_square < quantile(z, degrees));
    }
}

TEST_CASE("the mean of a million roundings is the value", "[stat]") {
  constexpr int trials = 1000000;
  const FloatFormat format = formats::fp8_e4m3;
  const double value = 1.3f;
  double sum = 0;
  for (int i = 0; i < trials; ++i)
    sum += soma::decode(
        format, soma::encode(format, 1.3f, Rounding::stochastic,
                             soma::rounding_word({.seed = 5}, 32, static_cast<std::uint64_t>(i))));
  // 1.3 lies between 1.25 and 1.375. Four standard deviations: false-alarm rate 6e-5.
  const double deviation = std::sqrt((value - 1.25) * (1.375 - value) / trials);
  CHECK(std::fabs(sum / trials - value) < 4 * deviation);
}

// The accelerator's documented example: fp16, 1024, 0.5 added 2048 times. Each sum is half way
// between two numbers.
TEST_CASE("nearest-even loses every addend, stochastic rounding keeps their sum", "[stat]") {
  using soma::fp16;
  constexpr int additions = 2048;
  fp16 nearest(1024.0f);
  for (int i = 0; i < additions; ++i) nearest = fp16(nearest + 0.5f);
  CHECK(static_cast<float>(nearest) == 1024.0f);

  const auto run = [](std::uint32_t stream) {
    fp16 sum(1024.0f);
    for (int i = 0; i < additions; ++i) {
      const std::uint32_t word =
          soma::rounding_word({.seed = 0, .stream = stream}, 16, static_cast<std::uint64_t>(i));
      sum = fp16(sum + 0.5f, Rounding::stochastic, word);
    }
    return static_cast<double>(static_cast<float>(sum));
  };
  // Up by 0 or 1 with probability 1/2 each: standard deviation sqrt(2048 / 4) = 22.6. False-alarm
  // rate 6e-5.
  const double deviation = std::sqrt(additions / 4.0);
  CHECK(std::fabs(run(0) - 2048) < 4 * deviation);
  // Beyond 2048 a step is 2 with probability 1/4, with a variance of 3/4; no run is there for long
  // before it ends.
  double mean = 0;
  for (std::uint32_t stream = 1; stream <= 256; ++stream) mean += run(stream) / 256;
  CHECK(std::fabs(mean - 2048) < 4 * deviation / 16);
}
