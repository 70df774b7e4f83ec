#pragma once
// Tests if a tensor is free of NaN and infinity.

#include <soma/ops/support.hpp>

#include <atomic>
#include <cstddef>

namespace SOMA_NAMESPACE {

// True for integers, and for tensors without elements.
inline bool all_finite(Context& context, const Tensor& tensor) {
  if (!is_floating(tensor.dtype())) return true;
  const Tensor x = contiguous(context, tensor);
  std::atomic<bool> finite{true};
  detail::for_ranges(context, x.elements(), 1, [&](std::size_t begin, std::size_t end) {
    FiniteArgs args{
        .count = end - begin, .x = x.raw() + begin * size_of(x.dtype()), .dtype = x.dtype()};
    context.kernels().reduce.all_finite(args);
    if (!args.finite) finite.store(false, std::memory_order_relaxed);
  });
  return finite.load();
}

}  // namespace SOMA_NAMESPACE
