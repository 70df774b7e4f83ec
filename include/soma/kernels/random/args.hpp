#pragma once
// The arguments of the kernel that draws random numbers.

#include <soma/numeric/draw.hpp>

#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE {

enum class Distribution : std::uint8_t { uniform, normal, bernoulli };

// `count` random numbers: element draw.index of a stream and the following elements.
struct RandomArgs {
  Distribution distribution;
  Draw draw;
  float* out;
  std::size_t count;
  std::uint64_t threshold;  // bernoulli: 1 where the random word is below it, else 0; up to 2^32
};

}  // namespace SOMA_NAMESPACE
