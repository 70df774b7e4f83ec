// Moments, and the steps of Adam and AdamW. The order of rounding is part of the definition: see
// optimizer-inl.hpp.

#if defined(SOMA_KERNELS_OPTIMIZER_ADAM_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_OPTIMIZER_ADAM_INL_HPP
#undef SOMA_KERNELS_OPTIMIZER_ADAM_INL_HPP
#else
#define SOMA_KERNELS_OPTIMIZER_ADAM_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/optimizer/args.hpp>
#include <soma/kernels/optimizer/chunks-inl.hpp>
#include <soma/simd/ars-inl.hpp>
#include <soma/simd/fused-inl.hpp>
#include <soma/simd/memory-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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
  // A kept m is not 0, so v need not wait for it.
  const auto kept = is_not_below(d, smallest_first_moment, m);
  m = hn::IfThenElseZero(kept, m);
  v = hn::IfThenElseZero(hn::Or(kept, is_not_below(d, smallest_second_moment, v)), v);
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

// Replaces w, m and v by the new ones.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void step_adam(D d, const AdamArgs& args, const MomentFactors& moments, V gradient, V& w,
                          V& m, V& v) {
  step_moments(d, moments, gradient, m, v);
  const V root =
      fused(d, hn::Sqrt(v), hn::Set(d, args.inverse_root_correction2), hn::Set(d, args.epsilon));
  const V step = hn::Div(hn::Mul(hn::Set(d, args.step_size), m), root);
  w = fused(d, hn::Set(d, args.decay_factor), w, hn::Neg(step));
}

template <class Lanes>
HWY_NOINLINE HWY_MAYBE_UNUSED static void adam_chunk(const AdamArgs& step, const float* gradient,
                                                     const Lanes weight, const Lanes m_run,
                                                     const Lanes v_run, std::size_t count) {
  const StepLanes d;
  const AdamArgs args = step;  // a copy whose address does not leave: it can live in registers
  const MomentFactors moments = moment_factors(args);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    auto w = weight.load(d, i), m = m_run.load(d, i), v = v_run.load(d, i);
    step_adam(d, args, moments, load_bytes(d, gradient + i), w, m, v);
    m_run.store(d, m, i);
    v_run.store(d, v, i);
    weight.store(d, w, i);
  }
}

#if SOMA_HAS_AES

namespace {  // internal linkage: units with other flags have their own

// True if drawing a vector of blocks takes no longer than the steps of the vectors beside it.
inline bool draws_by_vectors() {
  const hn::Repartition<std::uint64_t, StepLanes> d64;
  return aes_instructions().vectors || (aes_instructions().blocks && hn::Lanes(d64) == 2);
}

// A stored bf16 run in a chunk.
struct DrawnBf16 {
  std::byte* codes;
  Draw draw;  // of the chunk's first element

  DrawnBf16(const StepRun& run, std::size_t first)
      : codes(run.target.data + 2 * first), draw(run.target.draw) {
    draw.index += first;
  }
  bool draws_beside(const DrawnBf16& other) const {
    return draw.seed == other.draw.seed && draw.step == other.draw.step &&
           draw.index == other.draw.index && draw.index % 8 == 0;
  }
};

// Two vectors, of even and of odd elements: the halves of each 32 bits of a stored vector.
template <class V>
struct EvenOdd {
  V even, odd;
};
template <class D, class V = hn::Vec<D>>
HWY_INLINE EvenOdd<V> load_even_odd(D d, const std::byte* codes) {
  const hn::RebindToUnsigned<D> d32;
  const auto stored = load_bytes(d32, codes);
  return {hn::BitCast(d, hn::ShiftLeft<16>(stored)),
          hn::BitCast(d, hn::And(stored, hn::Set(d32, 0xFFFF0000u)))};
}
// Rounded with the half-words of `random`. With a NaN only where `kMayBeNan`.
template <bool kMayBeNan, class D, class V, class V32>
HWY_INLINE void store_even_odd(D, const EvenOdd<V>& x, V32 random, std::byte* codes) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Repartition<std::uint16_t, D> d16;
  const auto even = hn::BitCast(d32, x.even), odd = hn::BitCast(d32, x.odd);
  const auto random_even = hn::AndNot(hn::Set(d32, 0xFFFF0000u), random);
  const auto random_odd = hn::ShiftRight<16>(random);
  if constexpr (kMayBeNan) {
    const auto of_odd = bf16_codes<true>(d32, odd, random_odd);
    store_bytes(d32, hn::Or(bf16_codes<true>(d32, even, random_even), hn::ShiftLeft<16>(of_odd)),
                codes);
  } else {
    const auto of_even = hn::ShiftRight<16>(hn::Add(even, random_even));
    const auto of_odd = hn::Add(odd, random_odd);
    store_bytes(d16, hn::OddEven(hn::BitCast(d16, of_odd), hn::BitCast(d16, of_even)), codes);
  }
}

// Two vectors of a gradient's elements from `at` on.
template <class D, class V = hn::Vec<D>>
HWY_INLINE EvenOdd<V> even_odd_gradient(D d, const float* gradient, std::size_t at) {
  const auto first = load_bytes(d, gradient + at);
  const auto second = load_bytes(d, gradient + at + hn::Lanes(d));
  return {hn::ConcatEven(d, second, first), hn::ConcatOdd(d, second, first)};
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE EvenOdd<V> even_odd_gradient(D d, const std::byte* stored, std::size_t at) {
  return load_even_odd(d, stored + 2 * at);
}

}  // namespace

// adam_chunk() of bf16 with 16 random bits of ARS. Blocks are drawn between steps, whose quotients
// and roots keep a unit busy that nothing else needs: 1.25 times as fast as drawing a chunk first.
// `count` is a multiple of two vectors; the runs draw beside each other. `gradient`: of fp32, or
// bytes of bf16.
template <class Gradient>
HWY_NOINLINE HWY_MAYBE_UNUSED static void adam_chunk_drawing(
    const AdamArgs& step, const Gradient* gradient, const DrawnBf16& weight, const DrawnBf16& m_run,
    const DrawnBf16& v_run, std::size_t count) {
  const StepLanes d;
  const hn::RebindToUnsigned<StepLanes> d32;
  const hn::Repartition<std::uint64_t, StepLanes> d64;
  const std::size_t lanes = hn::Lanes(d);
  const AdamArgs args = step;
  const MomentFactors moments = moment_factors(args);
  ArsBlocks<decltype(d64)> blocks(weight.draw.seed, weight.draw.index / 8);
  const auto start_w = blocks.start(weight.draw), start_m = blocks.start(m_run.draw),
             start_v = blocks.start(v_run.draw);
  const auto words = [&](auto start) HWY_ATTR { return hn::BitCast(d32, blocks.words(start)); };
  std::byte *const w_codes = weight.codes, *const m_codes = m_run.codes,
                   *const v_codes = v_run.codes;
  for (std::size_t i = 0; i < count; i += 2 * lanes, blocks.next()) {
    std::byte *w_at = w_codes + 2 * i, *m_at = m_codes + 2 * i, *v_at = v_codes + 2 * i;
    auto w = load_even_odd(d, w_at), m = load_even_odd(d, m_at), v = load_even_odd(d, v_at);
    const auto g = even_odd_gradient(d, gradient, i);
    step_adam(d, args, moments, g.even, w.even, m.even, v.even);
    step_adam(d, args, moments, g.odd, w.odd, m.odd, v.odd);
    const auto of_w = words(start_w), of_m = words(start_m), of_v = words(start_v);
    // Where m or v is NaN, so is w; infinities of both signs may look like one, and may.
    if (HWY_UNLIKELY(!hn::AllFalse(d, hn::IsNaN(hn::Add(w.even, w.odd))))) {
      store_even_odd<true>(d, w, of_w, w_at);
      store_even_odd<true>(d, m, of_m, m_at);
      store_even_odd<true>(d, v, of_v, v_at);
    } else {
      store_even_odd<false>(d, w, of_w, w_at);
      store_even_odd<false>(d, m, of_m, m_at);
      store_even_odd<false>(d, v, of_v, v_at);
    }
  }
}

#endif

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
#if SOMA_HAS_AES
  const auto draws_ars = [](const StepRun& run) {
    return run.target.codec.draws == DrawMapping::ars;
  };
  const bool by_vectors = all_drawn && draws_ars(weight) && draws_ars(m) && draws_ars(v) &&
                          args.coupled_decay == 0 && draws_by_vectors();
#endif
  // 1 * w - 0 is w.
  const bool stays = args.decay_factor == 1 && args.step_size >= 0 && args.epsilon > 0;
  const auto step = [&](const StepChunk& chunk) {
    const std::size_t first = chunk.first, count = chunk.count;
    if (!chunk.live && stays) return;
    const std::size_t whole = whole_groups(count);
    const bool coupled = args.coupled_decay != 0;
#if SOMA_HAS_AES
    if (by_vectors && chunk.live && count % (2 * hn::Lanes(StepLanes())) == 0) {
      const DrawnBf16 of_w(weight, first), of_m(m, first), of_v(v, first);
      if (of_w.draws_beside(of_m) && of_w.draws_beside(of_v)) {
        if (chunk.has_gradient && gradient.source.dtype == DType::bf16)
          adam_chunk_drawing(args, gradient.source.data + 2 * chunk.gradient, of_w, of_m, of_v,
                             count);
        else
          adam_chunk_drawing(args, load_gradient(gradient, chunk, scratch), of_w, of_m, of_v,
                             count);
        return;
      }
    }
#endif
    const float* g = chunk.live ? load_gradient(gradient, chunk, scratch) : nullptr;
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

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
