// Steps that divide by the root of a mean of squares: RMSprop, Adagrad of their sum, Adadelta.

#if defined(SOMA_KERNELS_OPTIMIZER_RMS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_OPTIMIZER_RMS_INL_HPP
#undef SOMA_KERNELS_OPTIMIZER_RMS_INL_HPP
#else
#define SOMA_KERNELS_OPTIMIZER_RMS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/optimizer/args.hpp>
#include <soma/kernels/optimizer/chunks-inl.hpp>
#include <soma/simd/fused-inl.hpp>
#include <soma/simd/memory-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// ---- RMSprop and Adagrad:  g = fma(weight_decay, w, gradient * factor)
//                            v = fma(keep, v, add * g * g), from left to right
//                            s = g / (sqrt(v) + epsilon), b = fma(momentum, b, s)
//                            w = fma(-rate, b, w), without momentum fma(-rate, s, w)
// b is 0 below smallest_first_moment, v below smallest_second_moment where g is 0 and v shrinks.

// `momentum` is nullptr without momentum.
HWY_NOINLINE HWY_MAYBE_UNUSED static void rms_chunk(const RmsArgs& args, const float* gradient,
                                                    const StepRun& weight, const StepRun& squares,
                                                    const StepRun* momentum, std::size_t count) {
  const StepLanes d;
  const auto factor = hn::Set(d, args.gradient.factor), decay = hn::Set(d, args.weight_decay);
  const auto keep = hn::Set(d, args.keep), add = hn::Set(d, args.add);
  const auto epsilon = hn::Set(d, args.epsilon), rate = hn::Set(d, -args.rate);
  const auto memory = hn::Set(d, args.momentum), zero = hn::Zero(d);
  const bool shrinks = args.keep < 1;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto w = load_bytes(d, weight.values + i);
    const auto g = fused(d, decay, w, hn::Mul(load_bytes(d, gradient + i), factor));
    auto v = fused(d, keep, load_bytes(d, squares.values + i), hn::Mul(hn::Mul(add, g), g));
    if (shrinks) v = hn::IfThenElse(hn::Eq(g, zero), zero_below(d, smallest_second_moment, v), v);
    auto step = hn::Div(g, hn::Add(hn::Sqrt(v), epsilon));
    if (momentum != nullptr) {
      step = zero_below(d, smallest_first_moment,
                        fused(d, memory, load_bytes(d, momentum->values + i), step));
      store_bytes(d, step, momentum->next + i);
    }
    store_bytes(d, v, squares.next + i);
    store_bytes(d, fused(d, rate, step, w), weight.next + i);
  }
}

// ---- Adadelta:  g and v as above; s = (sqrt(u + epsilon) / sqrt(v + epsilon)) * g
//                 u = fma(keep, u, add * s * s), w = fma(-rate, s, w)
// v and u are 0 below smallest_second_moment where g is 0.
HWY_NOINLINE HWY_MAYBE_UNUSED static void adadelta_chunk(const RmsArgs& args, const float* gradient,
                                                         const StepRun& weight,
                                                         const StepRun& squares,
                                                         const StepRun& steps, std::size_t count) {
  const StepLanes d;
  const auto factor = hn::Set(d, args.gradient.factor), decay = hn::Set(d, args.weight_decay);
  const auto keep = hn::Set(d, args.keep), add = hn::Set(d, args.add);
  const auto epsilon = hn::Set(d, args.epsilon), rate = hn::Set(d, -args.rate);
  const auto zero = hn::Zero(d);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto w = load_bytes(d, weight.values + i), u = load_bytes(d, steps.values + i);
    const auto g = fused(d, decay, w, hn::Mul(load_bytes(d, gradient + i), factor));
    const auto still = hn::Eq(g, zero);
    const auto v = fused(d, keep, load_bytes(d, squares.values + i), hn::Mul(hn::Mul(add, g), g));
    const auto step =
        hn::Mul(hn::Div(hn::Sqrt(hn::Add(u, epsilon)), hn::Sqrt(hn::Add(v, epsilon))), g);
    const auto next = fused(d, keep, u, hn::Mul(hn::Mul(add, step), step));
    store_bytes(d, hn::IfThenElse(still, zero_below(d, smallest_second_moment, v), v),
                squares.next + i);
    store_bytes(d, hn::IfThenElse(still, zero_below(d, smallest_second_moment, next), next),
                steps.next + i);
    store_bytes(d, fused(d, rate, step, w), weight.next + i);
  }
}

static inline void rms(const RmsArgs& args) noexcept {
  const bool has_momentum = args.momentum_state.data != nullptr;
  GradientSource gradient;
  StepRun weight, squares, momentum;
  open_gradient(args.gradient, gradient);
  open_run(args.weight, weight);
  open_run(args.v, squares);
  if (has_momentum) open_run(args.momentum_state, momentum);
  ConvertBuffers scratch;
  const auto step = [&](const StepChunk& chunk) {
    const std::size_t first = chunk.first, count = chunk.count;
    const float* g = load_gradient(gradient, chunk, scratch);
    load_chunk(weight, first, count, scratch);
    load_chunk(squares, first, count, scratch);
    if (has_momentum) load_chunk(momentum, first, count, scratch);
    if (args.step_squares)
      adadelta_chunk(args, g, weight, squares, momentum, whole_groups(count));
    else
      rms_chunk(args, g, weight, squares, has_momentum ? &momentum : nullptr, whole_groups(count));
    store_chunk(weight, first, count, scratch);
    store_chunk(squares, first, count, scratch);
    if (has_momentum) store_chunk(momentum, first, count, scratch);
  };
  if (has_momentum)
    for_step_chunks(args.rows, args.gradient, nullptr, step, weight, squares, momentum);
  else
    for_step_chunks(args.rows, args.gradient, nullptr, step, weight, squares);
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
