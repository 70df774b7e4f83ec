// Inputs for the tests of formats: fixed for ever by their seeds, the same on every machine (the
// distributions of <random> are not).
#pragma once

#include "reference_codec.hpp"

#include <soma/numeric/float_format.hpp>

#include <bit>
#include <cstdint>
#include <vector>

namespace soma_test {

// SplitMix64 (Steele, Lea, Flood, 2014).
class Sequence {
 public:
  explicit Sequence(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  std::uint32_t bits32() { return static_cast<std::uint32_t>(next() >> 32); }
  // From `low` to `high`, both included. The bias of the remainder does not matter here.
  int between(int low, int high) {
    return low + static_cast<int>(next() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::uint64_t state_;
};

inline std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

// Adds a positive fp32 pattern and `reach` patterns on either side, in both signs.
inline void add_around(std::vector<std::uint32_t>& patterns, std::uint32_t pattern,
                       std::uint32_t reach) {
  const std::uint32_t first = pattern > reach ? pattern - reach : 0;
  for (std::uint32_t p = first; p <= pattern + reach; ++p) {
    patterns.push_back(p);
    patterns.push_back(p | 0x80000000u);
  }
}

// fp32 patterns where conversion to a format can go wrong: every exponent with a few mantissas,
// around representable values, around the midpoints between them (all of them where there are at
// most `dense`, else as many spread out), around the overflow threshold, specials, and `random`
// patterns.
inline std::vector<std::uint32_t> float_samples(const ReferenceCodec& reference,
                                                std::uint64_t dense, int random,
                                                std::uint64_t seed) {
  std::vector<std::uint32_t> patterns;
  const int shift = 23 - reference.format().mantissa_bits;
  const std::uint32_t half = shift > 0 ? std::uint32_t{1} << (shift - 1) : 0;
  const std::uint32_t last = std::uint32_t{1} << shift;
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent)
    for (const std::uint32_t mantissa :
         {0u, 0x7FFFFEu, 0x400000u, half, last + half, 3 * last + half})
      add_around(patterns, exponent << 23 | (mantissa & 0x7FFFFFu), 1);

  const std::uint64_t count = reference.finite_count();
  const std::uint64_t stride = (count / dense + 1) | 1;  // odd: both even and odd codes
  const auto add_value = [&](double value) {
    if (value < 0x1p128) add_around(patterns, bits_of(static_cast<float>(value)), 1);
  };
  for (std::uint64_t code = 0; code < count; code += stride) {
    add_value(reference.magnitude(code));
    add_value((reference.magnitude(code) + reference.magnitude(code + 1)) / 2);
  }
  for (std::uint64_t code = count - 1; code <= count; ++code) {
    add_value(reference.magnitude(code));
    add_value((reference.magnitude(count - 1) + reference.magnitude(count)) / 2);
  }
  add_around(patterns, 0x7F7FFFFFu, 3);  // the largest floats, infinity, the first NaNs
  add_around(patterns, 0x7FC00000u, 1);
  add_around(patterns, 0x7FFFFFFEu, 1);

  Sequence sequence(seed);
  for (int i = 0; i < random; ++i) patterns.push_back(sequence.bits32());
  return patterns;
}

// A valid record with every field drawn at random, at most `widest` bits wide.
inline FloatFormat random_format(Sequence& sequence, int widest) {
  for (;;) {
    FloatFormat format;
    format.exponent_bits = sequence.between(1, 8);
    format.mantissa_bits = sequence.between(0, 23);
    format.specials = static_cast<Specials>(sequence.between(0, 3));
    format.is_signed = sequence.between(0, 3) != 0;
    format.subnormals = static_cast<Subnormals>(sequence.between(0, 2));
    format.overflow = static_cast<Overflow>(sequence.between(0, 3));
    format.bias = sequence.between(-130, 290);
    if (format.bits() <= widest && format.problem() == nullptr) return format;
  }
}

}  // namespace soma_test
