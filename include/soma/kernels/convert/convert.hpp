#pragma once
// convert(): many numbers from any format to any other, with rounding, scales and amax, over the
// context's executor.
//
// Values are decoded exactly to fp32, scaled if asked, and encoded with one rounding. The result of
// an element depends on its value, its scale, the options and its logical index: not on threads,
// target, alignment, length or how a tensor is cut into calls. Cost: one pass over the data (two if
// ScalePolicy::current has to find amax first); about memory speed for bf16, see docs/benchmarks.md
// for other formats. Allocates nothing.

#include <soma/kernels/table.hpp>
#include <soma/numeric/code_span.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/numeric/minifloat.hpp>
#include <soma/numeric/scaling.hpp>
#include <soma/runtime/parallel.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>

namespace SOMA_NAMESPACE {

struct ConvertOptions {
  Rounding rounding{};
  // The random numbers: number draw.index and the following ones for the elements in row-major
  // order; the k-th row starts at draw.index + k * draw_row_stride (0: the number of columns).
  Draw draw{};
  std::uint64_t draw_row_stride = 0;

  // The target's scales, scale_grid() many, row-major. ScalePolicy::current writes them, delayed
  // reads them.
  Scaling scaling{};
  // ScaleFormat::e4m3: the tensor's scale (tensor_scale_for()), by which its scales are multiplied.
  float tensor_scale = 1;
  std::span<float> scales{};
  // The scales of the source, read whatever the policy; empty: none.
  Granularity source_granularity = Granularity::tensor;
  std::span<const float> source_scales{};
  // Receives the largest finite magnitude of each scaling block of `scaling` (of the tensor if the
  // policy is none), before scaling: one pass computes the codes and the next step's amax. It is 0
  // if a scaling block has no finite value. Empty: not wanted.
  std::span<float> amax{};
};

// The matrix `from` into the matrix `to`, element by element. Conversion in place is allowed if
// both start at the same byte and no target element lies above its source (codes as wide or
// narrower; rows no farther apart); with narrower codes it then runs on one thread. On error
// nothing is written. Errors:
//   format.impossible       either format
//   convert.size_mismatch   rows or columns differ
//   convert.layout          a row stride shorter than a row, or no memory behind a matrix that is
//                           not empty
//   convert.overlap         the two overlap in another way
//   rounding.random_bits    more than 32
//   scaling.invalid         a field of the Scaling, or a delayed scale not positive and finite
//   scaling.count           scales, source_scales or amax are not as many as the scaling blocks
void convert(Context& context, const ConstCodeSpan& from, const CodeSpan& to,
             const ConvertOptions& options = {});

namespace detail {

template <class T>
struct FormatOf;
template <>
struct FormatOf<float> {
  static constexpr FloatFormat value = formats::fp32;
};
template <FloatFormat F>
struct FormatOf<minifloat<F>> {
  static constexpr FloatFormat value = F;
};

template <class Span>
using ElementOf = typename decltype(std::span(std::declval<Span&>()))::element_type;

template <class Span>
concept FloatSpan = requires(Span& span) {
  std::span(span);
  FormatOf<std::remove_const_t<ElementOf<Span>>>::value;
};

template <class T>
auto typed_code_span(std::span<T> values) {
  return code_span(FormatOf<std::remove_const_t<T>>::value, [&] {
    if constexpr (std::is_const_v<T>)
      return std::as_bytes(values);
    else
      return std::as_writable_bytes(values);
  }());
}

}  // namespace detail

// The same for arrays, vectors and spans of float and minifloat. Errors as above.
template <class From, class To>
requires detail::FloatSpan<const From> && detail::FloatSpan<To>
void convert(Context& context, const From& from, To&& to, const ConvertOptions& options = {}) {
  convert(context, ConstCodeSpan(detail::typed_code_span(std::span(from))),
          detail::typed_code_span(std::span(to)), options);
}

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/kernels/convert/impl/convert.ipp>
#endif
