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
namespace soma {
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

// ---- moments, of AdamW and LAMB:  g = gradient * factor
//                                   m = fma(beta1, m, (1 - beta1) * g)
//                                   v = fma(beta2, v, (1 - beta2) * g * g), from left to right
// and 0 below smallest_first_moment; v below smallest_second_moment where m is 0.

struct MomentFactors {
  float beta1, beta2, share1, share2, gradient;
};

template <class Args>
static inline MomentFactors moment_factors(const Args& args) {
  return {args.beta1, args.beta2, args.one_minus_beta1, args.one_minus_beta2, args.gradient.factor};
}

// Replaces m and v by the new ones.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void step_moments(D d, const MomentFactors& by, V gradient, V& m, V& v) {
  const V g = hn::Mul(gradient, hn::Set(d, by.gradient));
  m = fused(d, hn::Set(d, by.beta1), m, hn::Mul(hn::Set(d, by.share1), g));
  v = fused(d, hn::Set(d, by.beta2), v, hn::Mul(hn::Mul(hn::Set(d, by.share2), g), g));
  m = zero_below(d, smallest_first_moment, m);
  v = hn::IfThenElse(hn::Eq(m, hn::Zero(d)), zero_below(d, smallest_second_moment, v), v);
}

// ---- AdamW:  w = fma(decay_factor, w, -(step_size * m / fma(sqrt(v), 1 / sqrt(correction2),
//                                                              epsilon)))

// The two forms of a state in adam_chunk(). FloatLanes: floats, decoded before and encoded after
// the step. The other form, bf16 with 16 random bits, reads, steps and rounds in one pass: 1.2
// times as fast.
struct FloatLanes {
  explicit FloatLanes(const StepRun& run) : values(run.values), next(run.next) {}
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, std::size_t i) const {
    return load_bytes(d, values + i);
  }
  template <class D>
  HWY_INLINE void store(D d, hn::Vec<D> x, std::size_t i) const {
    store_bytes(d, x, next + i);
  }
  const float* values;
  float* next;
};
struct DrawnBf16Lanes {
  DrawnBf16Lanes(const StepRun& run, std::size_t first, std::size_t count, std::uint32_t* buffer)
      : codes(run.target.data + 2 * first),
        words(draw_words(run.target.codec, run.target.draw, run.target.draw.index + first, count,
                         buffer)) {}
  template <class D>
  HWY_INLINE hn::Vec<D> load(D d, std::size_t i) const {
    const hn::RebindToUnsigned<D> d32;
    return hn::BitCast(d, hn::ShiftLeft<16>(half(d32, codes, i)));
  }
  template <class D>
  HWY_INLINE void store(D, hn::Vec<D> x, std::size_t i) const {
    const hn::RebindToUnsigned<D> d32;
    const hn::Rebind<std::uint16_t, D> d16;
    const auto rounded = bf16_codes<true>(d32, hn::BitCast(d32, x), half(d32, words, i));
    store_bytes(d16, hn::TruncateTo(d16, rounded), codes + 2 * i);
  }
  template <class D32>
  static HWY_INLINE hn::Vec<D32> half(D32 d32, const std::byte* from, std::size_t i) {
    return hn::PromoteTo(d32, load_bytes(hn::Rebind<std::uint16_t, D32>(), from + 2 * i));
  }
  std::byte* codes;
  const std::byte* words;
};

template <class Lanes>
HWY_NOINLINE HWY_MAYBE_UNUSED static void adam_chunk(const AdamArgs& args, const float* gradient,
                                                     const Lanes weight, const Lanes m_run,
                                                     const Lanes v_run, std::size_t count) {
  const StepLanes d;
  const MomentFactors moments = moment_factors(args);
  const auto decay = hn::Set(d, args.decay_factor), size = hn::Set(d, args.step_size);
  const auto correction = hn::Set(d, args.inverse_root_correction2);
  const auto epsilon = hn::Set(d, args.epsilon);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    auto m = m_run.load(d, i), v = v_run.load(d, i);
    step_moments(d, moments, load_bytes(d, gradient + i), m, v);
    const auto step = hn::Div(hn::Mul(size, m), fused(d, hn::Sqrt(v), correction, epsilon));
    m_run.store(d, m, i);
    v_run.store(d, v, i);
    weight.store(d, fused(d, decay, weight.load(d, i), hn::Neg(step)), i);
  }
}

// Adam: the same with g = fma(coupled_decay, w, gradient * factor).
HWY_NOINLINE HWY_MAYBE_UNUSED static void coupled_adam_chunk(
    const AdamArgs& args, const float* gradient, const FloatLanes weight, const FloatLanes m_run,
    const FloatLanes v_run, std::size_t count) {
  const StepLanes d;
  MomentFactors moments = moment_factors(args);
  moments.gradient = 1;
  const auto factor = hn::Set(d, args.gradient.factor), coupled = hn::Set(d, args.coupled_decay);
  const auto decay = hn::Set(d, args.decay_factor), size = hn::Set(d, args.step_size);
  const auto correction = hn::Set(d, args.inverse_root_correction2);
  const auto epsilon = hn::Set(d, args.epsilon);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    auto m = m_run.load(d, i), v = v_run.load(d, i);
    const auto w = weight.load(d, i);
    step_moments(d, moments, fused(d, coupled, w, hn::Mul(load_bytes(d, gradient + i), factor)), m,
                 v);
    const auto step = hn::Div(hn::Mul(size, m), fused(d, hn::Sqrt(v), correction, epsilon));
    m_run.store(d, m, i);
    v_run.store(d, v, i);
    weight.store(d, fused(d, decay, w, hn::Neg(step)), i);
  }
}

// The same where gradient and moments are zero, which stay so.
template <class Lanes>
HWY_NOINLINE HWY_MAYBE_UNUSED static void adam_decay_chunk(const AdamArgs& args, const Lanes weight,
                                                           std::size_t count) {
  const StepLanes d;
  const auto decay = hn::Set(d, args.decay_factor), zero = hn::Zero(d);
  const auto root =
      fused(d, zero, hn::Set(d, args.inverse_root_correction2), hn::Set(d, args.epsilon));
  const auto step = hn::Neg(hn::Div(hn::Mul(hn::Set(d, args.step_size), zero), root));
  for (std::size_t i = 0; i < count; i += hn::Lanes(d))
    weight.store(d, fused(d, decay, weight.load(d, i), step), i);
}

static inline void adam(const AdamArgs& args) noexcept {
  GradientSource gradient;
  StepRun weight, m, v;
  open_gradient(args.gradient, gradient);
  open_run(args.weight, weight);
  open_run(args.m, m);
  open_run(args.v, v);
  ConvertBuffers scratch;
  struct {
    alignas(64) std::uint32_t weight[chunk_words], m[chunk_words], v[chunk_words];
  } words;
  const bool all_drawn = draws_plain_bf16(weight.target.codec) &&
                         draws_plain_bf16(m.target.codec) && draws_plain_bf16(v.target.codec);
  // 1 * w - 0 is w.
  const bool stays = args.decay_factor == 1 && args.step_size >= 0 && args.epsilon > 0;
  const auto step = [&](const StepChunk& chunk) {
    const std::size_t first = chunk.first, count = chunk.count;
    if (!chunk.live && stays) return;
    const float* g = chunk.live ? load_gradient(gradient, chunk, scratch) : nullptr;
    const std::size_t whole = whole_groups(count);
    const bool coupled = args.coupled_decay != 0;
    if (all_drawn && whole == count && !coupled) {
      const DrawnBf16Lanes w(weight, first, count, words.weight);
      if (chunk.live)
        adam_chunk(args, g, w, DrawnBf16Lanes(m, first, count, words.m),
                   DrawnBf16Lanes(v, first, count, words.v), count);
      else
        adam_decay_chunk(args, w, count);
      return;
    }
    load_chunk(weight, first, count, scratch);
    if (chunk.live) {
      load_chunk(m, first, count, scratch);
      load_chunk(v, first, count, scratch);
      if (coupled)
        coupled_adam_chunk(args, g, FloatLanes(weight), FloatLanes(m), FloatLanes(v), whole);
      else
        adam_chunk(args, g, FloatLanes(weight), FloatLanes(m), FloatLanes(v), whole);
      store_chunk(m, first, count, scratch);
      store_chunk(v, first, count, scratch);
    } else {
      adam_decay_chunk(args, FloatLanes(weight), whole);
    }
    store_chunk(weight, first, count, scratch);
  };
  for_step_chunks(args.rows, args.gradient, args.live, step, weight, m, v);
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
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
