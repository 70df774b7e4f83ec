#pragma once
// A table of the CodecParams of the types that tensors have. Kernels are called for a few rows at a
// time, and computing the parameters in each call took 2 % of a step of a small model.

#include <soma/numeric/rounding.hpp>
#include <soma/simd/codec_params.hpp>
#include <soma/tensor/dtype.hpp>

#include <array>
#include <cstddef>

namespace SOMA_NAMESPACE {

namespace detail {

inline constexpr std::size_t rounding_modes =
    static_cast<std::size_t>(RoundingMode::stochastic) + 1;
using CodecsOfType = std::array<CodecParams, rounding_modes>;

inline constexpr std::array<CodecsOfType, dtypes.size()> stored_codecs = [] {
  std::array<CodecsOfType, dtypes.size()> codecs{};
  for (std::size_t i = 0; i < dtypes.size(); ++i)
    if (is_floating(dtypes[i]))
      for (std::size_t mode = 0; mode < rounding_modes; ++mode)
        codecs[i][mode] =
            make_codec_params(format_of(dtypes[i]), {.mode = static_cast<RoundingMode>(mode)});
  return codecs;
}();

}  // namespace detail

// The codec of a floating type.
constexpr CodecParams stored_codec(DType dtype, const Rounding& rounding = {}) {
  if (rounding.random_bits != 0) return make_codec_params(format_of(dtype), rounding);
  CodecParams codec = detail::stored_codecs[static_cast<std::size_t>(dtype)]
                                           [static_cast<std::size_t>(rounding.mode)];
  codec.draws = rounding.draws;
  return codec;
}

}  // namespace SOMA_NAMESPACE
