#pragma once
// AtomicMaximum: a maximum that several threads collect.

#include <soma/base/config.hpp>

#include <atomic>
#include <bit>
#include <cstdint>

namespace SOMA_NAMESPACE::detail {

// The largest of many floats that are not negative, from any thread. The bits of such floats ascend
// with their values.
class AtomicMaximum {
 public:
  void include(float value);
  float value() const;

 private:
  std::atomic<std::uint32_t> bits_{0};
};

}  // namespace SOMA_NAMESPACE::detail

#ifndef SOMA_DISPATCH
#include <soma/kernels/convert/impl/atomic_maximum.ipp>
#endif
