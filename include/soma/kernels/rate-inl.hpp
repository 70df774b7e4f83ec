// The yardsticks of describe_host() and of shares of the peak: multiply-adds that never leave the
// registers.

#if defined(SOMA_KERNELS_RATE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_RATE_INL_HPP
#undef SOMA_KERNELS_RATE_INL_HPP
#else
#define SOMA_KERNELS_RATE_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/simd/bf16_dot-inl.hpp>
#include <soma/simd/bf16_tiles-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using RateFloats = hn::CappedTag<float, 16>;
using RateVector = hn::Vec<RateFloats>;

// Twelve chains: a multiply-add takes 4 to 6 cycles and two start in each, so fewer would wait for
// each other. Returns the operations done, of which there are `each` a lane and step.
template <class Step>
HWY_INLINE double rate_of(std::uint64_t rounds, double each, const Step& step) {
  constexpr RateFloats d;
  // All different: a compiler would compute equal chains once.
  const auto from = [](float first) HWY_ATTR { return hn::Set(RateFloats(), first); };
  RateVector c0 = from(0.0f), c1 = from(0.1f), c2 = from(0.2f), c3 = from(0.3f), c4 = from(0.4f),
             c5 = from(0.5f), c6 = from(0.6f), c7 = from(0.7f), c8 = from(0.8f), c9 = from(0.9f),
             c10 = from(1.0f), c11 = from(1.1f);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    c0 = step(c0), c1 = step(c1), c2 = step(c2), c3 = step(c3);
    c4 = step(c4), c5 = step(c5), c6 = step(c6), c7 = step(c7);
    c8 = step(c8), c9 = step(c9), c10 = step(c10), c11 = step(c11);
  }
  const auto sum = hn::Add(
      hn::Add(hn::Add(hn::Add(c0, c1), hn::Add(c2, c3)), hn::Add(hn::Add(c4, c5), hn::Add(c6, c7))),
      hn::Add(hn::Add(c8, c9), hn::Add(c10, c11)));
  // The sums are finite; testing that keeps the loop from being dropped.
  return hn::GetLane(sum) < 1e30f
             ? 12.0 * each * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds)
             : 0.0;
}

HWY_NOINLINE HWY_MAYBE_UNUSED static double multiply_add_rate(std::uint64_t rounds) noexcept {
  const RateFloats d;
  const auto a = hn::Set(d, 0.999f), b = hn::Set(d, 0.001f);
  return rate_of(rounds, 2, [=](RateVector c) HWY_ATTR { return hn::MulAdd(c, a, b); });
}

#if SOMA_HAS_BF16_DOT
HWY_NOINLINE HWY_MAYBE_UNUSED static double bf16_dot_rate(std::uint64_t rounds) noexcept {
  const auto zeros = hn::Zero(RateFloats());
  return rate_of(rounds, 4, [=](RateVector c) HWY_ATTR { return dot_pairs(zeros, zeros, c); });
}
#else
inline constexpr double (*bf16_dot_rate)(std::uint64_t) noexcept = nullptr;
#endif

#if SOMA_HAS_BF16_TILES
// Four chains of tiles: a product takes 52 cycles and one starts every 16.
HWY_NOINLINE HWY_MAYBE_UNUSED static double bf16_tile_rate(std::uint64_t rounds) noexcept {
  const Tiles tiles;
  Tiles::clear<4>(), Tiles::clear<5>(), Tiles::clear<6>(), Tiles::clear<7>();
  for (std::uint64_t i = 0; i < rounds; ++i) {
    Tiles::multiply_add<0, 4, 6>(), Tiles::multiply_add<1, 4, 7>();
    Tiles::multiply_add<2, 5, 6>(), Tiles::multiply_add<3, 5, 7>();
  }
  return 4.0 * 2 * tile_lines * tile_floats * tile_steps * static_cast<double>(rounds);
}
#else
inline constexpr double (*bf16_tile_rate)(std::uint64_t) noexcept = nullptr;
#endif

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
