// Parts of a sum times a Hadamard matrix.

#if defined(SOMA_KERNELS_QUANTIZE_ROTATE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef SOMA_KERNELS_QUANTIZE_ROTATE_INL_HPP
#undef SOMA_KERNELS_QUANTIZE_ROTATE_INL_HPP
#else
#define SOMA_KERNELS_QUANTIZE_ROTATE_INL_HPP
#endif

#include <soma/base/config.hpp>
#include <soma/kernels/quantize/args.hpp>
#include <soma/kernels/rows/matrix_io-inl.hpp>

#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace SOMA_NAMESPACE {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// y = x * factors. Not inlined: products must not be contracted into sums.
HWY_NOINLINE HWY_MAYBE_UNUSED static void multiply_each(const float* x, const float* factors,
                                                        std::size_t count, float* y) {
  map_vectors<2>({x, factors}, y, count,
                 [](FloatVector a, FloatVector b) HWY_ATTR { return hn::Mul(a, b); });
}
HWY_NOINLINE HWY_MAYBE_UNUSED static void multiply_all(const float* x, float factor,
                                                       std::size_t count, float* y) {
  const FloatVector all = hn::Set(Floats(), factor);
  map_vectors<1>({x}, y, count, [&](FloatVector a) HWY_ATTR { return hn::Mul(a, all); });
}

// Sums and differences of rows that lie `half` apart, `width` numbers of each.
HWY_INLINE void butterflies(float* x, std::size_t rows, std::size_t half, std::size_t stride,
                            std::size_t width) {
  for (std::size_t first = 0; first < rows; first += 2 * half)
    for (std::size_t i = first; i < first + half; ++i) {
      float *const a = x + i * stride, *const b = x + (i + half) * stride;
      std::size_t j = 0;
      for (; j + float_lanes <= width; j += float_lanes) {
        const Floats d;
        const auto left = hn::LoadU(d, a + j), right = hn::LoadU(d, b + j);
        hn::StoreU(hn::Add(left, right), d, a + j);
        hn::StoreU(hn::Sub(left, right), d, b + j);
      }
      for (; j < width; ++j) {
        const float left = a[j], right = b[j];
        a[j] = left + right;
        b[j] = left - right;
      }
    }
}

// The stages from neighbours on, of `size` rows.
HWY_INLINE void all_butterflies(float* x, std::size_t size, std::size_t stride, std::size_t width) {
  for (std::size_t half = 1; half < size; half *= 2) butterflies(x, size, half, stride, width);
}

#if HWY_TARGET == HWY_SCALAR  // has no shuffles
HWY_INLINE void rotate_within(float* x, std::size_t size) { all_butterflies(x, size, 1, 1); }
#else
// Adjacent numbers: the first two stages within vectors of four, the others between such vectors.
HWY_INLINE void rotate_within(float* x, std::size_t size) {
  const hn::CappedTag<float, 4> d;
  alignas(16) constexpr float odd[4] = {0.0f, -0.0f, 0.0f, -0.0f};
  alignas(16) constexpr float high[4] = {0.0f, 0.0f, -0.0f, -0.0f};
  const auto minus_odd = hn::Load(d, odd), minus_high = hn::Load(d, high);
  for (std::size_t i = 0; i < size; i += 4) {
    auto v = hn::LoadU(d, x + i);
    v = hn::Add(hn::Shuffle2301(v), hn::Xor(v, minus_odd));
    v = hn::Add(hn::Shuffle1032(v), hn::Xor(v, minus_high));
    hn::StoreU(v, d, x + i);
  }
  for (std::size_t half = 4; half < size; half *= 2)
    for (std::size_t first = 0; first < size; first += 2 * half)
      for (std::size_t i = first; i < first + half; i += 4) {
        const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + i + half);
        hn::StoreU(hn::Add(a, b), d, x + i);
        hn::StoreU(hn::Sub(a, b), d, x + i + half);
      }
}
#endif

// The sum runs along rows.
static inline void rotate_rows(const RotateArgs& args) {
  const MatrixReader x(args.x);
  ChunkBuffer buffer;
  alignas(64) float factors[row_chunk];
  static_assert(row_chunk % most_rotated == 0);
  for (std::size_t i = 0; i < row_chunk; ++i) factors[i] = args.factors[i % args.size];
  for (std::size_t row = 0; row < args.rows; ++row)
    for (std::size_t column = 0; column < args.columns; column += row_chunk) {
      const std::size_t count = (std::min)(row_chunk, args.columns - column);
      const std::size_t rest = count % args.size, whole = count - rest;
      const float* from = x.read(row, column, count, buffer.values);
      float* const to = args.y + row * args.row_stride + column;
      multiply_each(from, factors, whole, to);
      for (std::size_t i = 0; i < whole; i += args.size) rotate_within(to + i, args.size);
      std::memcpy(to + whole, from + whole, rest * sizeof(float));
    }
}

// The sum runs down the columns: as many of them at a time as stay in a first-level cache.
static inline void rotate_columns(const RotateArgs& args) {
  const MatrixReader x(args.x);
  ChunkBuffer buffer;
  const std::size_t whole = args.rows - args.rows % args.size;
  const std::size_t width = (std::min)(row_chunk, 8192 / args.size);
  for (std::size_t column = 0; column < args.columns; column += width) {
    const std::size_t count = (std::min)(width, args.columns - column);
    float* const to = args.y + column;
    for (std::size_t first = 0; first < whole; first += args.size) {
      for (std::size_t i = 0; i < args.size; ++i)
        multiply_all(x.read(first + i, column, count, buffer.values), args.factors[i], count,
                     to + (first + i) * args.row_stride);
      all_butterflies(to + first * args.row_stride, args.size, args.row_stride, count);
    }
    for (std::size_t row = whole; row < args.rows; ++row)
      std::memcpy(to + row * args.row_stride, x.read(row, column, count, buffer.values),
                  count * sizeof(float));
  }
}

static inline void rotate_kernel(const RotateArgs& args) noexcept {
  if (args.down)
    rotate_columns(args);
  else
    rotate_rows(args);
}

}  // namespace HWY_NAMESPACE
}  // namespace SOMA_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
