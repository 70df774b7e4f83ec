// The optimizer entries of the kernel table.
//
// The order of rounding is part of the definition. In the formulas below fma() is one fused
// operation and every other operation is rounded to fp32 on its own; no product meets a sum outside
// of fma(), so nothing is left for a compiler to contract. Square roots and quotients are IEEE's.
// Parameters are stepped with the new states as computed, before those are rounded to their types.

#if defined(SOMA_KERNELS_OPTIMIZER_OPTIMIZER_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_OPTIMIZER_OPTIMIZER_INL_HPP
#undef SOMA_KERNELS_OPTIMIZER_OPTIMIZER_INL_HPP
#else
#define SOMA_KERNELS_OPTIMIZER_OPTIMIZER_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/optimizer/adam-inl.hpp>
#include <soma/kernels/optimizer/args.hpp>
#include <soma/kernels/optimizer/chunks-inl.hpp>
#include <soma/kernels/optimizer/rms-inl.hpp>
#include <soma/kernels/reduce/lane_sums-inl.hpp>
#include <soma/simd/memory-inl.hpp>
#include <soma/simd/normal-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// ---- SGD:  g = fma(weight_decay, w, gradient * factor)
//            b = fma(momentum, b, (1 - dampening) * g), or g in the first step; 0 below
//                smallest_first_moment
//            w = fma(-rate, nesterov ? fma(momentum, b, g) : b, w)

// `count` is a multiple of 16. `state` is nullptr without momentum.
HWY_NOINLINE HWY_MAYBE_UNUSED static void sgd_chunk(const SgdArgs& args, const float* gradient,
                                                    const StepRun& weight, const StepRun* state,
                                                    std::size_t count) {
  const StepLanes d;
  const auto factor = hn::Set(d, args.gradient.factor), decay = hn::Set(d, args.weight_decay);
  const auto momentum = hn::Set(d, args.momentum), rate = hn::Set(d, -args.rate);
  const auto share = hn::Set(d, 1.0f - args.dampening);
  const bool nesterov = args.nesterov, first_step = args.first_step;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto w = load_bytes(d, weight.values + i);
    const auto g = fused(d, decay, w, hn::Mul(load_bytes(d, gradient + i), factor));
    auto step = g;
    if (state != nullptr) {
      auto b = g;
      if (!first_step) b = fused(d, momentum, load_bytes(d, state->values + i), hn::Mul(share, g));
      b = zero_below(d, smallest_first_moment, b);
      store_bytes(d, b, state->next + i);
      step = nesterov ? fused(d, momentum, b, g) : b;
    }
    store_bytes(d, fused(d, rate, step, w), weight.next + i);
  }
}

static inline void sgd(const SgdArgs& args) noexcept {
  const bool has_state = args.momentum_state.data != nullptr;
  GradientSource gradient;
  StepRun weight, state;
  open_gradient(args.gradient, gradient);
  open_run(args.weight, weight);
  if (has_state) open_run(args.momentum_state, state);
  ConvertBuffers scratch;
  const auto step = [&](const StepChunk& chunk) {
    const std::size_t first = chunk.first, count = chunk.count;
    const float* g = load_gradient(gradient, chunk, scratch);
    load_chunk(weight, first, count, scratch);
    if (has_state) load_chunk(state, first, count, scratch);
    sgd_chunk(args, g, weight, has_state ? &state : nullptr, whole_groups(count));
    store_chunk(weight, first, count, scratch);
    if (has_state) store_chunk(state, first, count, scratch);
  };
  if (has_state)
    for_step_chunks(args.rows, args.gradient, nullptr, step, weight, state);
  else
    for_step_chunks(args.rows, args.gradient, nullptr, step, weight);
}

// ---- LAMB:  u = fma(weight_decay, w, m / correction1 / fma(sqrt(v), 1 / sqrt(correction2),
//                                                            epsilon))
//             then  w = fma(-rate * trust, u, w)

HWY_NOINLINE HWY_MAYBE_UNUSED static void lamb_chunk(const LambArgs& args, const float* gradient,
                                                     const float* weight, const StepRun& m_run,
                                                     const StepRun& v_run, std::size_t count,
                                                     float* update) {
  const StepLanes d;
  const MomentFactors moments = moment_factors(args);
  const auto decay = hn::Set(d, args.weight_decay), epsilon = hn::Set(d, args.epsilon);
  const auto correction1 = hn::Set(d, args.inverse_correction1);
  const auto correction2 = hn::Set(d, args.inverse_root_correction2);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    auto m = load_bytes(d, m_run.values + i), v = load_bytes(d, v_run.values + i);
    step_moments(d, moments, load_bytes(d, gradient + i), m, v);
    store_bytes(d, m, m_run.next + i);
    store_bytes(d, v, v_run.next + i);
    const auto ratio =
        hn::Div(hn::Mul(m, correction1), fused(d, hn::Sqrt(v), correction2, epsilon));
    store_bytes(d, fused(d, decay, load_bytes(d, weight + i), ratio), update + i);
  }
}

static inline void lamb_update(LambArgs& args) noexcept {
  const RunSource gradient = run_source(args.gradient.data, args.gradient.dtype);
  RunBuffer gradient_buffer;
  const RunSource weight = run_source(args.weight.data, args.weight.dtype);
  const RunTarget update = run_target(args.update, DType::fp32, {}, {});
  StepRun m, v;
  open_run(args.m, m);
  open_run(args.v, v);
  RunBuffer weight_buffer, update_buffer;
  ConvertBuffers scratch;
  SixteenLanes<double> weight_squares, update_squares;
  for (std::size_t first = 0; first < args.count; first += run_chunk) {
    const std::size_t count = (std::min)(run_chunk, args.count - first);
    const std::size_t whole = whole_groups(count);
    const float* g = load_run(gradient, 0, first, count, gradient_buffer.values, scratch);
    const float* w = load_run(weight, 0, first, count, weight_buffer.values, scratch);
    load_chunk(m, first, count, scratch);
    load_chunk(v, first, count, scratch);
    float* u = place_run(update, first, count, update_buffer.values);
    lamb_chunk(args, g, w, m, v, whole, u);
    // The padding of the last group may be 0 / 0, and must not join the sums.
    std::fill(u + count, u + whole, 0.0f);
    add_squares(w, whole, weight_squares);
    add_squares(u, whole, update_squares);
    store_run(update, first, count, u, scratch);
    store_chunk(m, first, count, scratch);
    store_chunk(v, first, count, scratch);
  }
  args.weight_squares = total(weight_squares);
  args.update_squares = total(update_squares);
}

HWY_NOINLINE HWY_MAYBE_UNUSED static void lamb_apply_chunk(float factor, const float* update,
                                                           const StepRun& weight,
                                                           std::size_t count) {
  const StepLanes d;
  const auto negated = hn::Set(d, -factor);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto w = load_bytes(d, weight.values + i);
    store_bytes(d, fused(d, negated, load_bytes(d, update + i), w), weight.next + i);
  }
}

static inline void lamb_apply(const LambArgs& args) noexcept {
  const RunSource update = run_source(args.update, DType::fp32);
  StepRun weight;
  open_run(args.weight, weight);
  RunBuffer update_buffer;
  ConvertBuffers scratch;
  for (std::size_t first = 0; first < args.count; first += run_chunk) {
    const std::size_t count = (std::min)(run_chunk, args.count - first);
    const float* u = load_run(update, 0, first, count, update_buffer.values, scratch);
    load_chunk(weight, first, count, scratch);
    lamb_apply_chunk(args.rate_times_trust, u, weight, whole_groups(count));
    store_chunk(weight, first, count, scratch);
  }
}

[[maybe_unused]] static constexpr OptimizerKernels optimizer_kernels{
    .sgd = sgd,
    .adam = adam,
    .lamb_update = lamb_update,
    .lamb_apply = lamb_apply,
    .rms = rms,
};

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
