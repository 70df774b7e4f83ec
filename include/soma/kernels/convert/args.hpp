#pragma once
// The arguments of the kernel that converts between formats.

#include <soma/numeric/draw.hpp>
#include <soma/simd/codec_params.hpp>

#include <cstddef>

namespace SOMA_NAMESPACE {

// Converts a run of adjacent elements from one format to another, in these steps.
struct ConvertArgs {
  const std::byte* from;  // `count` stored codes
  CodecParams from_params;
  std::byte* to;  // nullptr: only collect amax
  CodecParams to_params;
  std::size_t count;
  Draw draw;  // for the first element; used by RoundingMode::stochastic
  // Decoded values are multiplied by source_scales[i / source_group]; nullptr: no multiplication.
  const float* source_scales;
  std::size_t source_group;
  // Then the largest finite magnitudes are collected: amax[i / target_group] = max(itself,
  // magnitude), or infinity with `marks_infinite` where a number is not finite; nullptr: not
  // computed.
  float* amax;
  bool marks_infinite;
  // Then values are multiplied by inverse_scales[i / target_group], and finite values limited to
  // -limit to limit; nullptr: neither.
  const float* inverse_scales;
  float limit;
  std::size_t target_group;
  // true: the target is too large for a cache, so writes bypass the caches, which saves reading
  // each line first.
  bool stream;
};

}  // namespace SOMA_NAMESPACE
