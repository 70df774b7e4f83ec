// Statistics of the half-words that stochastic rounding draws, in both versions of the mapping: as
// likely one as another, and independent of those beside them, of other streams, steps, rows and
// seeds. Seeds are fixed, so a test either always passes or always fails; counts of n draws are
// near enough to normal ones, and deviations are cut at 5.5 of their standard deviations, which a
// correct mapping exceeds with a probability of 4e-8: 2e-4 for all of the 5,000 checks together.
#include "catch.hpp"

#include <soma/numeric/draw.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

using soma::Draw;
using soma::DrawMapping;

namespace {

constexpr double most_deviations = 5.5;
using HalfWords = std::vector<std::uint16_t>;

// Half-words from draw.index on, `distance` apart.
HalfWords half_words(DrawMapping mapping, Draw draw, std::size_t count,
                     std::uint64_t distance = 1) {
  HalfWords words(count);
  for (std::size_t i = 0; i < count; ++i, draw.index += distance)
    words[i] = soma::random_half_word(draw, 0, mapping);
  return words;
}

// Deviations from the mean of a binomial count.
double deviations(std::uint64_t count, std::size_t n, double p = 0.5) {
  const auto draws = static_cast<double>(n);
  return (static_cast<double>(count) - draws * p) / std::sqrt(draws * p * (1 - p));
}

// The standard deviations of a chi-square sum from its mean (Wilson and Hilferty's transform).
double chi_square_deviations(const std::vector<std::uint64_t>& counts, std::size_t n) {
  const auto cells = static_cast<double>(counts.size());
  const double expected = static_cast<double>(n) / cells, degrees = cells - 1;
  double sum = 0;
  for (const std::uint64_t count : counts) {
    const double off = static_cast<double>(count) - expected;
    sum += off * off / expected;
  }
  const double t = 2 / (9 * degrees);
  return (std::cbrt(sum / degrees) - (1 - t)) / std::sqrt(t);
}

double largest(double a, double b) {
  return std::fabs(b) > std::fabs(a) ? std::fabs(b) : std::fabs(a);
}

// By how many deviations the worst of them is off: the mean, and how often each bit is set.
double worst_alone(const HalfWords& x) {
  double sum = 0;
  std::array<std::uint64_t, 16> set{};
  for (const std::uint16_t word : x) {
    sum += word;
    for (std::size_t bit = 0; bit < 16; ++bit) set[bit] += word >> bit & 1u;
  }
  const auto n = static_cast<double>(x.size());
  // 65,536 equally likely integers have the variance (2^32 - 1) / 12.
  double worst = std::fabs(sum - n * 32767.5) / std::sqrt(n * (0x1p32 - 1) / 12);
  for (const std::uint64_t count : set) worst = largest(worst, deviations(count, x.size()));
  return worst;
}

// The worst of three statistics of x[i] beside y[i]: the correlation, the equality of each bit of
// one with each bit of the other, and tables of the upper and of the lower four bits.
double worst_pair(const HalfWords& x, const HalfWords& y) {
  const std::size_t n = x.size();
  double products = 0;
  std::array<std::array<std::uint64_t, 16>, 16> equal{};
  std::vector<std::uint64_t> upper(256), lower(256);
  for (std::size_t i = 0; i < n; ++i) {
    products += (x[i] - 32767.5) * (y[i] - 32767.5);
    ++upper[static_cast<std::size_t>(x[i] >> 12 << 4 | y[i] >> 12)];
    ++lower[static_cast<std::size_t>((x[i] & 15) << 4 | (y[i] & 15))];
    for (int turn = 0; turn < 16; ++turn) {
      const auto same =
          static_cast<std::uint32_t>(static_cast<std::uint16_t>(~(x[i] ^ std::rotl(y[i], turn))));
      for (std::size_t bit = 0; bit < 16; ++bit)
        equal[static_cast<std::size_t>(turn)][bit] += same >> bit & 1u;
    }
  }
  double worst = std::fabs(products) / (std::sqrt(static_cast<double>(n)) * (0x1p32 - 1) / 12);
  for (const auto& of_turn : equal)
    for (const std::uint64_t count : of_turn) worst = largest(worst, deviations(count, n));
  worst = largest(worst, chi_square_deviations(upper, n));
  return largest(worst, chi_square_deviations(lower, n));
}

struct Pair {
  std::string name;
  HalfWords x, y;
};

// The pairs of half-words that are neighbours in a step of an optimizer.
std::vector<Pair> pairs(DrawMapping mapping, std::size_t n) {
  const Draw weight{.seed = 7, .stream = soma::stream_id("dense.weight", "optimizer"), .step = 100};
  const auto with = [&](Draw draw, std::uint64_t distance = 1) {
    return half_words(mapping, draw, n, distance);
  };
  Draw next = weight, first = weight, second = weight, later = weight, seeded = weight,
       row = weight, block = weight, high = weight, zero{}, one{.step = 1};
  next.index = 1;
  block.index = 8;
  first.stream += 1;
  second.stream += 2;
  later.step += 1;
  seeded.seed += 1;
  row.index = std::uint64_t{1} << 32;
  high.seed ^= std::uint64_t{1} << 63;
  constexpr std::uint64_t by_row = std::uint64_t{1} << 32;
  return {{"neighbours", with(weight), with(next)},
          {"neighbouring blocks", with(weight), with(block)},
          {"a weight and its first moment", with(weight), with(first)},
          {"a weight and its second moment", with(weight), with(second)},
          {"both moments", with(first), with(second)},
          {"steps", with(weight), with(later)},
          {"rows", with(weight), with(row)},
          {"first elements of rows", with(weight, by_row), with(row, by_row)},
          {"seeds", with(weight), with(seeded)},
          {"the highest bit of the seed", with(weight), with(high)},
          {"nothing but zeros, and a one", with(zero), with(one)}};
}

}  // namespace

TEST_CASE("half-words are as likely one as another", "[stat]") {
  for (const DrawMapping mapping : {DrawMapping::philox, DrawMapping::ars}) {
    constexpr std::size_t n = std::size_t{1} << 20;
    INFO(std::string(to_string(mapping)));
    const HalfWords words = half_words(mapping, {.seed = 1, .stream = 2, .step = 3}, n);
    CHECK(worst_alone(words) < most_deviations);
    std::vector<std::uint64_t> counts(65536);
    for (const std::uint16_t word : words) ++counts[word];
    CHECK(std::fabs(chi_square_deviations(counts, n)) < most_deviations);
  }
}

TEST_CASE("half-words do not tell of those beside them", "[stat]") {
  constexpr std::size_t n = std::size_t{1} << 15;
  for (const DrawMapping mapping : {DrawMapping::philox, DrawMapping::ars})
    for (const auto& [name, x, y] : pairs(mapping, n)) {
      INFO(std::string(to_string(mapping)) << ", " << name);
      CHECK(worst_alone(x) < most_deviations);
      CHECK(worst_alone(y) < most_deviations);
      CHECK(worst_pair(x, y) < most_deviations);
    }
}

TEST_CASE("the same over 2^24 half-words", "[slow]") {
  constexpr std::size_t n = std::size_t{1} << 24;
  for (const auto& [name, x, y] : pairs(DrawMapping::ars, n)) {
    INFO(name);
    CHECK(worst_alone(x) < most_deviations);
    CHECK(worst_pair(x, y) < most_deviations);
  }
}

// How far apart equal values lie: m birthdays among d days have m^3 / (4 d) equal spacings, about
// Poisson distributed (Marsaglia, "A current view of random number generators", 1985). Here 4,096
// birthdays of 32 bits, made of two half-words, have four; over 512 repetitions their sum is as
// good as normal.
TEST_CASE("equal spacings between birthdays are as many as they should be", "[stat]") {
  constexpr std::size_t birthdays = 4096, repetitions = 512;
  std::uint64_t index = 0, equal = 0;
  std::vector<std::uint32_t> days(birthdays), spacings(birthdays);
  for (std::size_t repetition = 0; repetition < repetitions; ++repetition) {
    for (std::uint32_t& day : days)
      day = soma::random_word({.seed = 5, .stream = 6, .step = 7}, index++, DrawMapping::ars);
    std::sort(days.begin(), days.end());
    for (std::size_t i = 0; i < birthdays; ++i) spacings[i] = days[(i + 1) % birthdays] - days[i];
    std::sort(spacings.begin(), spacings.end());
    for (std::size_t i = 1; i < birthdays; ++i) equal += spacings[i] == spacings[i - 1];
  }
  const double wanted = 4.0 * repetitions;
  CHECK(std::fabs(static_cast<double>(equal) - wanted) < most_deviations * std::sqrt(wanted));
}
