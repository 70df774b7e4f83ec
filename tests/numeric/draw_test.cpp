// The mapping from (seed, stream, step, index) to random bits is frozen: models trained yesterday
// must repeat. These answers were computed outside the library, from the description in draw.hpp.
#include "catch.hpp"
#include "mismatches.hpp"

#include <soma/numeric/draw.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

using soma::Draw;

namespace {

struct Known {
  Draw draw;
  std::uint32_t word;
  std::uint32_t half_word;
};

constexpr Known known[] = {
    {{}, 0x6627E8D5, 0xE8D5},
    {{7, 1, 42, 0}, 0xD6475A50, 0x5A50},
    {{7, 1, 42, 1}, 0x312BFA88, 0xD647},
    {{7, 1, 42, 2}, 0x74D3BF71, 0xFA88},
    {{7, 1, 42, 3}, 0x7DDD3F95, 0x312B},
    {{7, 1, 42, 4}, 0x31287AA8, 0xBF71},
    {{7, 1, 42, 5}, 0xBD97F680, 0x74D3},
    {{7, 1, 42, 6}, 0x09B62567, 0x3F95},
    {{7, 1, 42, 7}, 0x999D0B2D, 0x7DDD},
    {{7, 1, 42, 8}, 0x72EAEA67, 0x7AA8},
    {{0x0123456789ABCDEF, 0xD2FC74C5, 1000000, 0xFEDCBA9876543210}, 0x244641CE, 0xB6B5},
    {{~std::uint64_t{0}, ~0u, ~0u, ~std::uint64_t{0}}, 0x411FCEFD, 0x69DA},
    {{std::uint64_t{1} << 32, 0, 0, (std::uint64_t{1} << 34) + 3}, 0x07BBFEF7, 0xB1ED},
};

}  // namespace

static_assert(soma::stream_id("", "") == 0x050C5D1F);
static_assert(soma::stream_id("a", "") == 0x2B24D044);
static_assert(soma::stream_id("", "a") == 0x70772D5A);
static_assert(soma::stream_id("encoder.layer.0.attention", "dropout") == 0xD2FC74C5);
static_assert(soma::stream_id("encoder.layer.0", "attention.dropout") == 0x736DFB05);
static_assert(soma::stream_id("weights", "rounding") == 0xB5E0ADF6);
static_assert(soma::stream_id("\xC3\xA9", "x") == 0x1F323231);  // bytes above 127 count as unsigned
static_assert(soma::random_word({7, 1, 42, 0}) == 0xD6475A50);

TEST_CASE("words and half-words of known draws", "[unit]") {
  for (const Known& k : known) {
    INFO(k.draw.seed << " " << k.draw.stream << " " << k.draw.step << " " << k.draw.index);
    CHECK(soma::random_word(k.draw) == k.word);
    CHECK(soma::random_half_word(k.draw) == k.half_word);
    CHECK(soma::rounding_word(k.draw, 32) == k.word);
    CHECK(soma::rounding_word(k.draw, 17) == k.word);
    CHECK(soma::rounding_word(k.draw, 16) == k.half_word << 16);
    CHECK(soma::rounding_word(k.draw, 1) == k.half_word << 16);
  }
}

TEST_CASE("an offset is an addition to the index", "[unit]") {
  soma_test::Mismatches result;
  for (const std::uint64_t index :
       {std::uint64_t{0}, std::uint64_t{5}, (std::uint64_t{1} << 34) - 3, ~std::uint64_t{6}})
    for (std::uint64_t offset = 0; offset < 40; ++offset) {
      const Draw from{3, 4, 5, index}, at{3, 4, 5, index + offset};
      result.expect(soma::random_word(from, offset) == soma::random_word(at) &&
                        soma::random_half_word(from, offset) == soma::random_half_word(at) &&
                        soma::rounding_word(from, 16, offset) == soma::rounding_word(at, 16) &&
                        soma::rounding_word(from, 32, offset) == soma::rounding_word(at, 32),
                    [&](auto& out) { out << index << " + " << offset; });
    }
  CHECK_NONE(result);
}

TEST_CASE("words and half-words are the little-endian items of one stream of blocks", "[unit]") {
  const Draw draw{99, 8, 7, 0};
  constexpr std::size_t blocks = 16;
  std::array<unsigned char, 16 * blocks> bytes{};
  for (std::size_t b = 0; b < blocks; ++b) {
    const soma::PhiloxCounter block = soma::random_block(draw, b);
    for (std::size_t w = 0; w < 4; ++w)
      for (std::size_t byte = 0; byte < 4; ++byte)
        bytes[16 * b + 4 * w + byte] = static_cast<unsigned char>(block[w] >> (8 * byte));
  }
  soma_test::Mismatches result;
  for (std::size_t i = 0; i < 4 * blocks; ++i) {
    std::uint32_t word = 0;
    for (std::size_t byte = 0; byte < 4; ++byte)
      word |= std::uint32_t{bytes[4 * i + byte]} << (8 * byte);
    result.expect(soma::random_word(draw, i) == word, [&](auto& out) { out << "word " << i; });
  }
  for (std::size_t i = 0; i < 8 * blocks; ++i) {
    const auto half = static_cast<std::uint32_t>(bytes[2 * i] | bytes[2 * i + 1] << 8);
    result.expect(soma::random_half_word(draw, i) == half,
                  [&](auto& out) { out << "half-word " << i; });
  }
  CHECK_NONE(result);
}

TEST_CASE("seed, stream and step each give another stream, the index only a place in it",
          "[unit]") {
  const Draw draw{1, 2, 3, 4};
  Draw other = draw;
  other.seed += std::uint64_t{1} << 32;
  CHECK(soma::random_block(other, 0) != soma::random_block(draw, 0));
  other = draw;
  other.stream += 1;
  CHECK(soma::random_block(other, 0) != soma::random_block(draw, 0));
  other = draw;
  other.step += 1;
  CHECK(soma::random_block(other, 0) != soma::random_block(draw, 0));
  other = draw;
  other.index += 1;
  CHECK(other != draw);
  CHECK(soma::random_block(other, 0) == soma::random_block(draw, 0));
}
