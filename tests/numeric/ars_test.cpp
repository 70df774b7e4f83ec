// ARS 4x32-5: answers published for more rounds, and frozen ones of the mapping that it is part of.
#include "catch.hpp"

#include <soma/numeric/ars.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/numeric/rounding.hpp>

#include <cstdint>

using soma::ArsCounter;
using soma::Draw;
using soma::DrawMapping;

// Answers of Random123's own tests, for seven and for ten rounds.
static_assert(soma::ars::block({1, 0, 0, 0}, {1, 0, 0, 0}, 7) ==
              ArsCounter{0x3523162b, 0xdc14d20c, 0x79184077, 0x72184193});
static_assert(soma::ars::block({0x886a3f24, 0xd308a385, 0x2e8a1913, 0x44737003},
                               {0, 0, 0, 0x80000000},
                               10) == ArsCounter{0xb80e41ea, 0x4a1fa670, 0x348659dd, 0xee801943});
// Five rounds by a script of its own, byte by byte from FIPS 197.
static_assert(soma::ars4x32_5({0, 0, 0, 0}, {0, 0, 0, 0}) ==
              ArsCounter{0x7ecce06f, 0x7cdc3bca, 0x15513c87, 0x29d24c9b});
static_assert(soma::ars4x32_5({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                              {0xa4093822, 0x299f31d0, 0x082efa98, 0xec4e6c89}) ==
              ArsCounter{0x9150862d, 0x525af535, 0x6612f4fa, 0xe2a60648});

TEST_CASE("ars gives the published answers at run time too", "[unit]") {
  volatile std::uint32_t one = 1;  // keeps the compiler from computing it
  CHECK(soma::ars::block({one, 0, 0, 0}, {one, 0, 0, 0}, 7) ==
        ArsCounter{0x3523162b, 0xdc14d20c, 0x79184077, 0x72184193});
}

// The second version of the mapping is frozen as the first is (draw_test.cpp): of the same script.
TEST_CASE("words and half-words of known draws of the second mapping", "[unit]") {
  struct Known {
    Draw draw;
    std::uint32_t word, half_word;
  };
  constexpr Known known[] = {
      {{}, 0x7ECCE06F, 0xE06F},
      {{7, 1, 42, 0}, 0x2440B6E8, 0xB6E8},
      {{7, 1, 42, 1}, 0x33411415, 0x2440},
      {{7, 1, 42, 2}, 0xD1E714FE, 0x1415},
      {{7, 1, 42, 3}, 0x9330D3C9, 0x3341},
      {{7, 1, 42, 7}, 0x4DC79848, 0x9330},
      {{7, 1, 42, 8}, 0xFEA2DA01, 0xB4FA},
      {{0x0123456789ABCDEF, 0xD2FC74C5, 1000000, 0xFEDCBA9876543210}, 0xA385A629, 0x5427},
      {{~std::uint64_t{0}, ~0u, ~0u, ~std::uint64_t{0}}, 0xD2D8F796, 0xC957},
      {{std::uint64_t{1} << 32, 0, 0, (std::uint64_t{1} << 34) + 3}, 0xC051F6D6, 0xDB22},
  };
  for (const Known& k : known) {
    INFO(k.draw.seed << " " << k.draw.stream << " " << k.draw.step << " " << k.draw.index);
    CHECK(soma::random_word(k.draw, 0, DrawMapping::ars) == k.word);
    CHECK(soma::random_half_word(k.draw, 0, DrawMapping::ars) == k.half_word);
    CHECK(soma::rounding_word(k.draw, 32, 0, DrawMapping::ars) == k.word);
    CHECK(soma::rounding_word(k.draw, 16, 0, DrawMapping::ars) == k.half_word << 16);
    CHECK(soma::random_word(k.draw) != k.word);  // the first one's are others
    CHECK(soma::random_word(k.draw, 0, DrawMapping::automatic) == soma::random_word(k.draw));
  }
}

TEST_CASE("a rounding names the mapping of its draws, by itself none", "[unit]") {
  CHECK(soma::Rounding::stochastic.draws == DrawMapping::automatic);
  CHECK(to_string(DrawMapping::ars) == "ars");
  CHECK(to_string(DrawMapping::philox) == "philox");
}
