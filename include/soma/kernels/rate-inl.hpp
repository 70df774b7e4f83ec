// The yardstick of describe_host(): multiply-adds that never leave the registers.

#if defined(SOMA_KERNELS_RATE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_RATE_INL_HPP
#undef SOMA_KERNELS_RATE_INL_HPP
#else
#define SOMA_KERNELS_RATE_INL_HPP
#endif

#include <soma/base/config.hpp>

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace soma {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Ten chains: a multiply-add takes 4 to 5 cycles and two start in each, so fewer would wait for
// each other.
HWY_NOINLINE HWY_MAYBE_UNUSED static double multiply_add_rate(std::uint64_t rounds) noexcept {
  const hn::CappedTag<float, 16> d;
  const auto a = hn::Set(d, 0.999f), b = hn::Set(d, 0.001f);
  auto c0 = hn::Set(d, 0.0f), c1 = hn::Set(d, 0.1f), c2 = hn::Set(d, 0.2f), c3 = hn::Set(d, 0.3f);
  auto c4 = hn::Set(d, 0.4f), c5 = hn::Set(d, 0.5f), c6 = hn::Set(d, 0.6f), c7 = hn::Set(d, 0.7f);
  auto c8 = hn::Set(d, 0.8f), c9 = hn::Set(d, 0.9f);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    c0 = hn::MulAdd(c0, a, b);
    c1 = hn::MulAdd(c1, a, b);
    c2 = hn::MulAdd(c2, a, b);
    c3 = hn::MulAdd(c3, a, b);
    c4 = hn::MulAdd(c4, a, b);
    c5 = hn::MulAdd(c5, a, b);
    c6 = hn::MulAdd(c6, a, b);
    c7 = hn::MulAdd(c7, a, b);
    c8 = hn::MulAdd(c8, a, b);
    c9 = hn::MulAdd(c9, a, b);
  }
  const auto sum = hn::Add(hn::Add(hn::Add(c0, c1), hn::Add(c2, c3)),
                           hn::Add(hn::Add(c4, c5), hn::Add(hn::Add(c6, c7), hn::Add(c8, c9))));
  // The sums are finite; testing that keeps the loop from being dropped.
  const float lane = hn::GetLane(sum);
  return lane < 1e30f ? 20.0 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds)
                      : 0.0;
}

}  // namespace HWY_NAMESPACE
}  // namespace soma
HWY_AFTER_NAMESPACE();

#endif
