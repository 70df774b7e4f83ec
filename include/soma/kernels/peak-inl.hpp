// Measures the peak rates for describe_host() and for shares of the peak: multiply-adds that use
// registers only.

#if defined(SOMA_KERNELS_PEAK_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_PEAK_INL_HPP
#undef SOMA_KERNELS_PEAK_INL_HPP
#else
#define SOMA_KERNELS_PEAK_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/simd/bf16_dot-inl.hpp>
#include <soma/simd/bf16_tiles-inl.hpp>
#include <soma/simd/fused-inl.hpp>

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using RateFloats = hn::CappedTag<float, 16>;
using RateVector = hn::Vec<RateFloats>;

// The number of chains, as many as fit in registers beside the operands. A step takes 4 to 6 cycles
// and two start in each cycle, but a chain that has waited once never makes up for it, so there are
// twice as many chains as that requires (with 12, an AMD CPU reaches 0.92 of the rate of its bf16
// dot instruction).
inline constexpr std::size_t rate_chains = HWY_ARCH_X86 && HWY_TARGET > HWY_AVX3 ? 12 : 24;

// Returns the number of operations, which is `each` per lane and step.
template <class Step, std::size_t... i>
HWY_INLINE double rate_of(std::uint64_t rounds, double each, const Step& step,
                          std::index_sequence<i...>) {
  constexpr RateFloats d;
  // All chains start with different numbers: a compiler would compute equal chains once.
  RateVector chains[] = {hn::Set(d, 0.1f * static_cast<float>(i))...};
  for (std::uint64_t round = 0; round < rounds; ++round) ((chains[i] = step.of(chains[i])), ...);
  RateVector sum = hn::Zero(d);
  ((sum = hn::Add(sum, chains[i])), ...);
  // The sums are finite; the test keeps the compiler from dropping the loop.
  return hn::GetLane(sum) < 1e30f
             ? static_cast<double>(sizeof...(i)) * each * static_cast<double>(hn::Lanes(d)) *
                   static_cast<double>(rounds)
             : 0.0;
}

struct MultiplyAddStep {
  RateVector a, b;
  HWY_INLINE RateVector of(RateVector c) const { return multiply_add(c, a, b); }
};
HWY_NOINLINE HWY_MAYBE_UNUSED static double multiply_add_rate(std::uint64_t rounds) noexcept {
  const RateFloats d;
  return rate_of(rounds, 2, MultiplyAddStep{hn::Set(d, 0.999f), hn::Set(d, 0.001f)},
                 std::make_index_sequence<rate_chains>());
}

#if SOMA_HAS_BF16_DOT
struct Bf16DotStep {
  RateVector pairs;
  HWY_INLINE RateVector of(RateVector c) const { return dot_pairs(pairs, pairs, c); }
};
HWY_NOINLINE HWY_MAYBE_UNUSED static double bf16_dot_rate(std::uint64_t rounds) noexcept {
  return rate_of(rounds, 4, Bf16DotStep{hn::Zero(RateFloats())},
                 std::make_index_sequence<rate_chains>());
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
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
