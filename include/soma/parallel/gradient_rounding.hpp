#pragma once
// GradientRounding: rounds sums of gradients to a narrow format for transit.

#include <soma/kernels/convert/convert.hpp>
#include <soma/numeric/quantizer.hpp>
#include <soma/parallel/reduce_scatter.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace SOMA_NAMESPACE {

// Stochastic draws are keyed by seed, step, the set of ranks whose addends are in a sum, and the
// number of the element among all elements that a step reduces. So the bits depend on the number of
// ranks, but not on buckets, overlap, or the owner of a sum.
class GradientRounding final : public SumFormat {
 public:
  // The elements of a buffer from `begin` on are the elements of a step from `index` on, up to the
  // next run.
  struct Run {
    std::size_t begin;
    std::uint64_t index;
  };

  // `draw`: seed and step. `runs`: ascending, the first begins at 0; they must stay in place.
  GradientRounding(Context& context, const Quantizer& quantizer, const Draw& draw, int rank,
                   const HeapVector<Run>& runs)
      : context_(context), quantizer_(quantizer), draw_(draw), rank_(rank), runs_(runs) {}

  SOMA_INLINE std::size_t bytes() const override;

  SOMA_INLINE void round(std::size_t begin, std::span<float> sums, int ranks,
                         std::span<std::byte> codes) override;
  SOMA_INLINE void widen(std::span<const std::byte> codes, std::span<float> values) override;

 private:
  Context& context_;
  Quantizer quantizer_;
  Draw draw_;
  int rank_;
  const HeapVector<Run>& runs_;
};

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/parallel/impl/gradient_rounding.ipp>
#endif
