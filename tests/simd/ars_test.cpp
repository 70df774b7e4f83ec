// Blocks of ARS in vectors of each target, by all instructions that the CPU has for them, beside
// the tables.
#include <soma/dispatch/targets.hpp>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "simd/ars_test.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <soma/simd/ars-inl.hpp>

#include <cstddef>
#include <cstdint>

#ifndef SOMA_TEST_ARS_WAYS
#define SOMA_TEST_ARS_WAYS
namespace soma_test {

using WriteBlocks = void (*)(const soma::Draw&, std::uint64_t, std::size_t, std::uint32_t*);

// How a target can write blocks; nullptr: not at all.
struct ArsWays {
  WriteBlocks usual = nullptr, by_blocks = nullptr, by_vectors = nullptr;
};
template <std::int64_t target>
struct ArsOfTarget;

}  // namespace soma_test
#endif

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace {

void write_usual(const Draw& draw, std::uint64_t first, std::size_t blocks, std::uint32_t* out) {
  ars_words(draw, first, blocks, out);
}
#if SOMA_HAS_AES
void write_by_blocks(const Draw& draw, std::uint64_t first, std::size_t blocks,
                     std::uint32_t* out) {
  ars_vectors(hn::Full128<std::uint64_t>(), draw, first, blocks, out);
}
void write_by_vectors(const Draw& draw, std::uint64_t first, std::size_t blocks,
                      std::uint32_t* out) {
  ars_vectors(ArsLanes(), draw, first, blocks, out);
}
#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

namespace soma_test {
template <>
struct ArsOfTarget<HWY_TARGET> {
  static void fill(ArsWays& ways) {
    ways.usual = soma::HWY_NAMESPACE::write_usual;
#if SOMA_HAS_AES
    const soma::AesInstructions& aes = soma::aes_instructions();
    if (aes.blocks) ways.by_blocks = soma::HWY_NAMESPACE::write_by_blocks;
    if (aes.vectors) ways.by_vectors = soma::HWY_NAMESPACE::write_by_vectors;
#endif
  }
};
}  // namespace soma_test

#if HWY_ONCE

#include <soma/dispatch/family.hpp>

#include "catch.hpp"

#include <string>
#include <vector>

using namespace soma;
using namespace soma_test;

TEST_CASE("blocks of ARS have the same bits in every vector", "[unit]") {
  const Draw draw{.seed = 0x0123456789ABCDEF, .stream = 0xD2FC74C5, .step = 1000000};
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1) {
    const std::int64_t target = left & -left;
    INFO(std::string(hwy::TargetName(target)));
    ArsWays ways;
    soma::dispatch::fill_for<HWY_TARGETS, ArsOfTarget>(target, ways);
    REQUIRE(ways.usual != nullptr);
    for (const WriteBlocks write : {ways.usual, ways.by_blocks, ways.by_vectors}) {
      if (write == nullptr) continue;
      for (const std::uint64_t first :
           {std::uint64_t{0}, std::uint64_t{5}, (std::uint64_t{1} << 32) - 2, ~std::uint64_t{2}})
        for (const std::size_t blocks : std::vector<std::size_t>{1, 2, 3, 4, 7, 64}) {
          // 16 words more may be written: those of a vector of four blocks.
          std::vector<std::uint32_t> words(4 * blocks + 16 + 1, 0xABABABABu);
          write(draw, first, blocks, words.data());
          std::vector<std::uint32_t> wanted;
          for (std::size_t block = 0; block < blocks; ++block)
            for (const std::uint32_t word : random_block(draw, first + block, DrawMapping::ars))
              wanted.push_back(word);
          CHECK(words.back() == 0xABABABABu);
          words.resize(wanted.size());
          CHECK(words == wanted);
        }
    }
  }
}

#endif
