#pragma once
// The functions of gradient_rounding.hpp.

#include <soma/parallel/gradient_rounding.hpp>

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

SOMA_INLINE std::size_t GradientRounding::bytes() const {
  return static_cast<std::size_t>(quantizer_.format.bytes());
}

SOMA_INLINE void GradientRounding::round(std::size_t begin, std::span<float> sums, int ranks,
                                         std::span<std::byte> codes) {
  const std::string addends = std::to_string(ranks) + "/" + std::to_string(rank_ / ranks);
  Draw draw = draw_;
  draw.stream = stream_id(addends, "reduction");
  const std::size_t end = begin + sums.size();
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const std::size_t first = (std::max)(runs_[i].begin, begin);
    const std::size_t last = i + 1 < runs_.size() ? (std::min)(runs_[i + 1].begin, end) : end;
    if (first >= last) continue;
    draw.index = runs_[i].index + (first - runs_[i].begin);
    convert(context_,
            code_span(formats::fp32, std::as_bytes(sums.subspan(first - begin, last - first))),
            code_span(quantizer_.format,
                      codes.subspan((first - begin) * bytes(), (last - first) * bytes())),
            {.rounding = quantizer_.rounding, .draw = draw});
  }
  widen(codes, sums);
}

SOMA_INLINE void GradientRounding::widen(std::span<const std::byte> codes,
                                         std::span<float> values) {
  convert(context_, code_span(quantizer_.format, codes),
          code_span(formats::fp32, std::as_writable_bytes(values)));
}

}  // namespace SOMA_NAMESPACE
