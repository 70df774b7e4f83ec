#pragma once
// Draw: names a random number. Every random number in soma is a pure function of (seed, stream,
// step, index).
//
// The mapping is frozen (tests hold known answers): the cipher's key is the seed, the counter is
//     { low and high word of the block number, stream, step }.
// A block is 16 bytes. Element i of a stream of words is word i % 4 of block i / 4; of half-words,
// half-word i % 8 of block i / 8, where half-word 2j is the low half of word j: both are the i-th
// little-endian item of the stream of blocks. There are two versions of it: see DrawMapping.

#include <soma/numeric/ars.hpp>
#include <soma/numeric/philox.hpp>

#include <cstdint>
#include <string_view>

namespace SOMA_NAMESPACE {

// The version of the mapping, which names the cipher. Stochastic rounding can have either
// (Rounding::draws); all other draws are the first.
enum class DrawMapping : std::uint8_t {
  // philox, but ars in a training run: in steps of optimizers (optim/optimizer.hpp) and where
  // products and gradients in transit are rounded (nn/precision_state.hpp)
  automatic = 0,
  philox = 1,  // Philox 4x32-10
  ars = 2,     // ARS 4x32-5, whose key has zeros above the seed
};

constexpr std::string_view to_string(DrawMapping mapping) {
  switch (mapping) {
    case DrawMapping::automatic:
      return "automatic";
    case DrawMapping::philox:
      return "philox";
    case DrawMapping::ars:
      return "ars";
  }
  return "unknown";
}

struct Draw {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;  // where the draw happens: stream_id()
  std::uint32_t step = 0;    // which training step
  std::uint64_t index = 0;   // logical index of the first element (numeric/logical_index.hpp)

  friend constexpr bool operator==(const Draw&, const Draw&) = default;
};

// A stable name for a place that draws: FNV-1a (32 bits) of the module path, a zero byte and the
// site, for example stream_id("encoder.layer.0.attention", "dropout").
constexpr std::uint32_t stream_id(std::string_view path, std::string_view site) {
  std::uint32_t hash = 0x811C9DC5u;
  const auto add = [&hash](unsigned char byte) { hash = (hash ^ byte) * 0x01000193u; };
  for (const char character : path) add(static_cast<unsigned char>(character));
  add(0);
  for (const char character : site) add(static_cast<unsigned char>(character));
  return hash;
}

constexpr PhiloxKey philox_key(const Draw& draw) {
  return {static_cast<std::uint32_t>(draw.seed), static_cast<std::uint32_t>(draw.seed >> 32)};
}

// The four words of one block of the stream that `draw` names (draw.index has no effect).
constexpr PhiloxCounter random_block(const Draw& draw, std::uint64_t block,
                                     DrawMapping mapping = DrawMapping::philox) {
  const PhiloxCounter counter{static_cast<std::uint32_t>(block),
                              static_cast<std::uint32_t>(block >> 32), draw.stream, draw.step};
  const PhiloxKey key = philox_key(draw);
  return mapping == DrawMapping::ars ? ars4x32_5(counter, {key[0], key[1], 0, 0})
                                     : philox4x32_10(counter, key);
}

// The random word, or half-word, of element draw.index + offset.
constexpr std::uint32_t random_word(const Draw& draw, std::uint64_t offset = 0,
                                    DrawMapping mapping = DrawMapping::philox) {
  const std::uint64_t index = draw.index + offset;
  return random_block(draw, index / 4, mapping)[index % 4];
}
constexpr std::uint16_t random_half_word(const Draw& draw, std::uint64_t offset = 0,
                                         DrawMapping mapping = DrawMapping::philox) {
  const std::uint64_t index = draw.index + offset;
  const std::uint32_t word = random_block(draw, index / 8, mapping)[(index % 8) / 2];
  return static_cast<std::uint16_t>(index % 2 == 0 ? word : word >> 16);
}

// The random word in the form that encode() takes: random bits at the top. `bits` as from
// random_bits(rounding, format), `mapping` as Rounding::draws.
constexpr std::uint32_t rounding_word(const Draw& draw, int bits, std::uint64_t offset = 0,
                                      DrawMapping mapping = DrawMapping::philox) {
  return bits <= 16 ? static_cast<std::uint32_t>(random_half_word(draw, offset, mapping)) << 16
                    : random_word(draw, offset, mapping);
}

}  // namespace SOMA_NAMESPACE
