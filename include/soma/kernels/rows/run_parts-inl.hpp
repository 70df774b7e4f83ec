// Loops over several runs of the same length, some of which are written: one vector of each at a
// time.

#if defined(SOMA_KERNELS_ROWS_RUN_PARTS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_ROWS_RUN_PARTS_INL_HPP
#undef SOMA_KERNELS_ROWS_RUN_PARTS_INL_HPP
#else
#define SOMA_KERNELS_ROWS_RUN_PARTS_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/rows/vector_loops-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

namespace {  // internal linkage: units with other flags have their own

// Some neighbouring elements of a run: a vector, or the last elements as a padded copy.
class RunPart {
 public:
  RunPart(std::size_t first, std::size_t count) : first_(first), count_(count) {}
  HWY_INLINE FloatVector operator()(const float* run) const {
    const Floats d;
    if (HWY_LIKELY(count_ == float_lanes)) return hn::LoadU(d, run + first_);
    alignas(64) float padded[float_lanes] = {};
    std::memcpy(padded, run + first_, count_ * sizeof(float));
    return hn::Load(d, padded);
  }
  HWY_INLINE void write(FloatVector values, float* run) const {
    const Floats d;
    if (HWY_LIKELY(count_ == float_lanes)) {
      hn::StoreU(values, d, run + first_);
      return;
    }
    alignas(64) float padded[float_lanes];
    hn::Store(values, d, padded);
    std::memcpy(run + first_, padded, count_ * sizeof(float));
  }

 private:
  std::size_t first_, count_;
};

}  // namespace

template <class Body>
HWY_INLINE void for_run_parts(std::size_t count, const Body& body) {
  for (std::size_t first = 0; first < count; first += float_lanes)
    body(RunPart(first, (std::min)(float_lanes, count - first)));
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
