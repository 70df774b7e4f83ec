#pragma once
// Rounding: the conversion of a value to a representable value. The caller always chooses it; no
// type implies it.

#include <soma/base/error.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/numeric/float_format.hpp>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace SOMA_NAMESPACE {

enum class RoundingMode : std::uint8_t {
  nearest_even,  // ties to the even significand; without mantissa bits, away from zero (IEEE 754)
  nearest_away,  // ties away from zero
  toward_zero,
  up,    // toward +infinity
  down,  // toward -infinity
  // One of the two neighbours; the neighbour of larger magnitude with probability (x - lower) /
  // (upper - lower), decided by a counter-based random word (numeric/draw.hpp). Representable
  // values never change.
  stochastic,
};

struct RoundingSwitches;

struct Rounding {
  RoundingMode mode = RoundingMode::nearest_even;
  // Stochastic only: how many random bits are compared with the top of the discarded field, 1
  // to 32. 0 chooses 16 where normal numbers of the target discard at most 16 bits (bf16, fp16,
  // tf32), so that one block serves eight elements, else 32. Where the field is longer than
  // that it is truncated to its top bits: the bias is toward zero and below 2^-random_bits of the
  // target's spacing. 16 and fewer draw half-words, more draw words.
  std::uint8_t random_bits = 0;
  // Stochastic only: which numbers are drawn.
  DrawMapping draws = DrawMapping::automatic;

  // True: stochastic, and the caller leaves open which numbers are drawn.
  constexpr bool draws_automatically() const {
    return mode == RoundingMode::stochastic && draws == DrawMapping::automatic;
  }
  // The same rounding by `mapping`, if its draws are automatic.
  constexpr Rounding drawn_by(DrawMapping mapping) const {
    return {mode, random_bits, draws_automatically() ? mapping : draws};
  }

  friend constexpr bool operator==(const Rounding&, const Rounding&) = default;

  static const Rounding nearest_even, nearest_away, toward_zero, up, down, stochastic;

  // The accelerator's switches NEURON_RT_STOCHASTIC_ROUNDING_EN (0 or 1, default 0) and
  // NEURON_RT_STOCHASTIC_ROUNDING_SEED (64-bit unsigned, default 0), read at this call. Nothing
  // else in the library looks at them. Error rounding.environment where one of them is set to
  // something else.
  static RoundingSwitches from_environment();
};

inline constexpr Rounding Rounding::nearest_even{RoundingMode::nearest_even};
inline constexpr Rounding Rounding::nearest_away{RoundingMode::nearest_away};
inline constexpr Rounding Rounding::toward_zero{RoundingMode::toward_zero};
inline constexpr Rounding Rounding::up{RoundingMode::up};
inline constexpr Rounding Rounding::down{RoundingMode::down};
inline constexpr Rounding Rounding::stochastic{RoundingMode::stochastic};

struct RoundingSwitches {
  Rounding rounding;
  std::uint64_t seed = 0;
};

// The number of random bits that `rounding` uses for a target format.
constexpr int random_bits(const Rounding& rounding, const FloatFormat& target) {
  if (rounding.random_bits != 0) return rounding.random_bits;
  return 23 - target.mantissa_bits <= 16 ? 16 : 32;
}

// Error rounding.random_bits: more bits than a word has.
void check_random_bits(std::string_view operation, std::string_view argument,
                       const Rounding& rounding);

constexpr std::string_view to_string(RoundingMode mode) {
  switch (mode) {
    case RoundingMode::nearest_even:
      return "nearest_even";
    case RoundingMode::nearest_away:
      return "nearest_away";
    case RoundingMode::toward_zero:
      return "toward_zero";
    case RoundingMode::up:
      return "up";
    case RoundingMode::down:
      return "down";
    case RoundingMode::stochastic:
      return "stochastic";
  }
  return "unknown";
}

namespace detail {

std::uint64_t unsigned_from_environment(const char* name, std::uint64_t largest);

}  // namespace detail

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/numeric/impl/rounding.ipp>
#endif
