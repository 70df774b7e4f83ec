#pragma once
// The functions of atomic_maximum.hpp.

#include <soma/kernels/convert/atomic_maximum.hpp>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE void AtomicMaximum::include(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  std::uint32_t seen = bits_.load(std::memory_order_relaxed);
  while (bits > seen && !bits_.compare_exchange_weak(seen, bits, std::memory_order_relaxed)) {
  }
}

SOMA_INLINE float AtomicMaximum::value() const {
  return std::bit_cast<float>(bits_.load(std::memory_order_relaxed));
}

}  // namespace SOMA_NAMESPACE::detail
