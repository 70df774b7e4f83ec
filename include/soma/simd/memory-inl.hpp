// Loads and stores of vectors at any address and in memory of any type, and prefetches.
//
// Highway's LoadU and StoreU do that on every target except the scalar one. There they are plain
// accesses through a typed pointer, which is undefined if the memory holds another type or is not
// aligned for this type.

#if defined(SOMA_SIMD_MEMORY_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_SIMD_MEMORY_INL_HPP
#undef SOMA_SIMD_MEMORY_INL_HPP
#else
#define SOMA_SIMD_MEMORY_INL_HPP
#endif

#include <soma/base/config.hpp>

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> load_bytes(D d, const void* from) {
#if HWY_TARGET == HWY_SCALAR
  hn::TFromD<D> lane;
  std::memcpy(&lane, from, sizeof lane);
  return hn::Set(d, lane);
#else
  return hn::LoadU(d, static_cast<const hn::TFromD<D>*>(from));
#endif
}

template <class D>
HWY_INLINE void store_bytes(D d, hn::Vec<D> vector, void* to) {
#if HWY_TARGET == HWY_SCALAR
  (void)d;
  const hn::TFromD<D> lane = hn::GetLane(vector);
  std::memcpy(to, &lane, sizeof lane);
#else
  hn::StoreU(vector, d, static_cast<hn::TFromD<D>*>(to));
#endif
}

// Prefetches the data 2 KiB after these numbers: the CPU's own prefetcher does not look far enough
// ahead if the work on an element takes long, or rows are short. In steps of BERT-base and MiniLM
// the gradient of GELU takes 0.3 to 0.6 of its time with it, norms 0.8 and gradient norms 0.9
// (Intel, AMX); 1 or 4 KiB do the same.
HWY_INLINE void fetch_ahead(const void* used) {
  hwy::Prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(used) + 2048));
}

// Prefetches a line into the second-level cache, for later.
HWY_INLINE void fetch_to_second_level(const void* line) {
#if SOMA_GNU_ASSEMBLY
  __builtin_prefetch(line, 0, 2);
#else
  hwy::Prefetch(static_cast<const char*>(line));
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
