#pragma once
// The arguments and the table entry of the skeleton kernel. A real family has them in its args.hpp,
// which says what is computed, in which order numbers are added, and how large errors can be.

#include <cstddef>

namespace soma {

// y[i] = scale * x[i] + y[i], rounded once. x and y do not overlap, or are the same run.
struct SkeletonArgs {
  float scale = 1;
  const float* x = nullptr;  // count
  float* y = nullptr;        // count
  std::size_t count = 0;
};

struct SkeletonKernels {
  void (*scale)(const SkeletonArgs&) noexcept;
};

}  // namespace soma
