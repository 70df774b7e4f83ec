// Philox 4x32-10 against the answers published with it, and against its authors' own code where
// that is installed.
#include "catch.hpp"
#include "mismatches.hpp"
#include "samples.hpp"

#include <soma/numeric/philox.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>

#if __has_include(<Random123/philox.h>)
#include <Random123/philox.h>
#define SOMA_TEST_HAS_RANDOM123
#endif

using soma::philox4x32_10;
using soma::PhiloxCounter;
using soma::PhiloxKey;

// The three vectors of Random123's file kat_vectors: zeros, ones, digits of pi.
static_assert(philox4x32_10({0, 0, 0, 0}, {0, 0}) ==
              PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox4x32_10({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
              PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                            {0xa4093822, 0x299f31d0}) ==
              PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

TEST_CASE("philox gives the published answers at run time too", "[unit]") {
  volatile std::uint32_t zero = 0;  // keeps the compiler from computing it
  const std::uint32_t z = zero, o = ~z;
  CHECK(philox4x32_10({z, z, z, z}, {z, z}) ==
        PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32_10({o, o, o, o}, {o, o}) ==
        PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
}

#ifdef SOMA_TEST_HAS_RANDOM123
TEST_CASE("philox agrees with Random123", "[unit]") {
  soma_test::Sequence sequence(123);
  soma_test::Mismatches result;
  for (int i = 0; i < 1000; ++i) {
    PhiloxCounter counter;
    PhiloxKey key;
    for (auto& word : counter) word = sequence.bits32();
    for (auto& word : key) word = sequence.bits32();
    philox4x32_ctr_t their_counter;
    philox4x32_key_t their_key;
    for (std::size_t w = 0; w < 4; ++w) their_counter.v[w] = counter[w];
    for (std::size_t w = 0; w < 2; ++w) their_key.v[w] = key[w];
    const philox4x32_ctr_t theirs = philox4x32_R(10, their_counter, their_key);
    const PhiloxCounter ours = philox4x32_10(counter, key);
    result.expect(std::equal(ours.begin(), ours.end(), theirs.v),
                  [&](auto& out) { out << "counter " << counter[0] << " ..."; });
  }
  CHECK_NONE(result);
}
#endif

// A permutation of counters for each key: neighbouring blocks never repeat, and every input bit
// matters.
TEST_CASE("every bit of counter and key changes the block", "[unit]") {
  std::set<PhiloxCounter> blocks;
  const PhiloxCounter counter{1, 2, 3, 4};
  const PhiloxKey key{5, 6};
  blocks.insert(philox4x32_10(counter, key));
  for (std::size_t word = 0; word < 6; ++word)
    for (int bit = 0; bit < 32; ++bit) {
      PhiloxCounter c = counter;
      PhiloxKey k = key;
      (word < 4 ? c[word] : k[word - 4]) ^= 1u << bit;
      blocks.insert(philox4x32_10(c, k));
    }
  CHECK(blocks.size() == 1 + 6 * 32);
}
