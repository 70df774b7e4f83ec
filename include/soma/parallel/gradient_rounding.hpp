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

namespace soma {

// Stochastic draws are keyed by seed, step, the set of ranks whose addends are in a sum, and the
// number of the element among all elements that a step reduces. So the bits depend on the number of
// ranks, but not on buckets, overlap, or the owner of a sum.
class GradientRounding final : public SumFormat {
 public:
  // The elements of a buffer from `begin` on are the elements of a step from `place` on, up to the
  // next run.
  struct Run {
    std::size_t begin;
    std::uint64_t place;
  };

  // `draw`: seed and step. `runs`: ascending, the first begins at 0; they must stay in place.
  GradientRounding(Context& context, const Quantizer& quantizer, const Draw& draw, int rank,
                   const HeapVector<Run>& runs)
      : context_(context), quantizer_(quantizer), draw_(draw), rank_(rank), runs_(runs) {}

  std::size_t bytes() const override { return static_cast<std::size_t>(quantizer_.format.bytes()); }

  void round(std::size_t begin, std::span<float> sums, int ranks,
             std::span<std::byte> codes) override {
    const std::string addends = std::to_string(ranks) + "/" + std::to_string(rank_ / ranks);
    Draw draw = draw_;
    draw.stream = stream_id(addends, "reduction");
    const std::size_t end = begin + sums.size();
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      const std::size_t first = (std::max)(runs_[i].begin, begin);
      const std::size_t last = i + 1 < runs_.size() ? (std::min)(runs_[i + 1].begin, end) : end;
      if (first >= last) continue;
      draw.index = runs_[i].place + (first - runs_[i].begin);
      convert(context_,
              code_span(formats::fp32, std::as_bytes(sums.subspan(first - begin, last - first))),
              code_span(quantizer_.format,
                        codes.subspan((first - begin) * bytes(), (last - first) * bytes())),
              {.rounding = quantizer_.rounding, .draw = draw});
    }
    widen(codes, sums);
  }
  void widen(std::span<const std::byte> codes, std::span<float> values) override {
    convert(context_, code_span(quantizer_.format, codes),
            code_span(formats::fp32, std::as_writable_bytes(values)));
  }

 private:
  Context& context_;
  Quantizer quantizer_;
  Draw draw_;
  int rank_;
  const HeapVector<Run>& runs_;
};

}  // namespace soma
