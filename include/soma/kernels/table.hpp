#pragma once
// The kernel table: all code that soma compiles for an instruction set, behind plain functions.
//
// All code above the table is the same in every unit, whatever the compiler's flags. An entry works
// on one thread and on memory that its caller has checked; the caller holds a FloatEnvironment
// (parallel() does). Entries never allocate or throw.

#include <soma/kernels/attention/args.hpp>
#include <soma/kernels/element/args.hpp>
#include <soma/kernels/embedding/args.hpp>
#include <soma/kernels/gemm/args.hpp>
#include <soma/kernels/image/args.hpp>
#include <soma/kernels/loss/args.hpp>
#include <soma/kernels/norm/args.hpp>
#include <soma/kernels/optimizer/args.hpp>
#include <soma/kernels/quantize/args.hpp>
#include <soma/kernels/reduce/args.hpp>
#include <soma/kernels/sequence/args.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/simd/codec_params.hpp>

#include <cstddef>
#include <cstdint>

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
  // magnitude); nullptr: not computed.
  float* amax;
  // Then values are multiplied by inverse_scales[i / target_group], and finite values limited to
  // -limit to limit; nullptr: neither.
  const float* inverse_scales;
  float limit;
  std::size_t target_group;
  // true: the target is too large for a cache, so writes bypass the caches, which saves reading
  // each line first.
  bool stream;
};

enum class Distribution : std::uint8_t { uniform, normal, bernoulli };

// `count` random numbers: element draw.index of a stream and the following elements.
struct RandomArgs {
  Distribution distribution;
  Draw draw;
  float* out;
  std::size_t count;
  std::uint64_t threshold;  // bernoulli: 1 where the random word is below it, else 0; up to 2^32
};

struct Kernels {
  void (*convert)(const ConvertArgs&) noexcept;
  void (*random)(const RandomArgs&) noexcept;
  GemmKernels gemm;
  AttentionKernels attention;
  ElementKernels element;
  NormKernels norm;
  LossKernels loss;
  ReduceKernels reduce;
  EmbeddingKernels embedding;
  ImageKernels image;
  OptimizerKernels optimizer;
  void (*quantize)(const QuantizeArgs&) noexcept;
  SequenceKernels sequence;
};

}  // namespace SOMA_NAMESPACE
