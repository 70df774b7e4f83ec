#pragma once
// rotated(): an operand of a product times a Hadamard matrix along the sum (Rotation, in
// numeric/quantizer.hpp). A pass over the operand, and a copy of it in fp32.

#include <soma/numeric/draw.hpp>
#include <soma/numeric/quantizer.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>
#include <soma/ops/views/cast.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace SOMA_NAMESPACE::detail {

inline constexpr std::size_t most_rotated = 128;

// The factors of the numbers of a rotated part: 1 over the root of the size, with signs.
inline std::array<float, most_rotated> rotation_factors(const Rotation& rotation, Draw draw) {
  const int size = rotation.size;
  const float root = size == 16   ? 0.25f
                     : size == 32 ? 0.17677669529663687f
                     : size == 64 ? 0.125f
                                  : 0.08838834764831845f;
  std::array<float, most_rotated> factors;
  factors.fill(root);
  if (rotation.signs == Rotation::Signs::fixed) return factors;
  for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
    draw.index = i;
    if ((random_word(draw) >> 31) != 0) factors[i] = -root;
  }
  return factors;
}

// Adds and subtracts `size` blocks of `width` numbers, which lie `stride` apart.
inline void butterflies(float* x, std::size_t size, std::size_t stride, std::size_t width) {
  for (std::size_t half = 1; half < size; half *= 2)
    for (std::size_t first = 0; first < size; first += 2 * half)
      for (std::size_t i = first; i < first + half; ++i) {
        float *a = x + i * stride, *b = x + (i + half) * stride;
        for (std::size_t j = 0; j < width; ++j) {
          const float sum = a[j] + b[j], difference = a[j] - b[j];
          a[j] = sum;
          b[j] = difference;
        }
      }
}

// The rotation of parts of a row, whose numbers are adjacent: 16 parts at a time as columns.
inline void rotate_row(float* x, std::size_t parts, std::size_t size, const float* factors) {
  constexpr std::size_t together = 16;
  alignas(64) float columns[most_rotated * together];
  for (std::size_t first = 0; first < parts; first += together) {
    const std::size_t count = (std::min)(together, parts - first);
    float* from = x + first * size;
    for (std::size_t p = 0; p < count; ++p)
      for (std::size_t i = 0; i < size; ++i)
        columns[i * together + p] = from[p * size + i] * factors[i];
    for (std::size_t p = count; p < together; ++p)
      for (std::size_t i = 0; i < size; ++i) columns[i * together + p] = 0;
    butterflies(columns, size, together, together);
    for (std::size_t p = 0; p < count; ++p)
      for (std::size_t i = 0; i < size; ++i) from[p * size + i] = columns[i * together + p];
  }
}

// `along_rows`: the sum runs down the columns, and parts start anew at each shard of `sequences`;
// those of a `parameter` do not.
inline Tensor rotated(Context& context, const Tensor& x, const Rotation& rotation,
                      const Draw& signs, bool along_rows, bool parameter,
                      const Sequences& sequences) {
  Tensor y = Tensor::empty(context, x.shape());
  const Tensor from = plain_fp32(context, x);
  const std::size_t rows = x.shape().rows(), columns = x.shape().columns();
  const auto size = static_cast<std::size_t>(rotation.size);
  float* to = y.mutable_data<float>();
  const float* values = from.data<float>();
  const std::array<float, most_rotated> factors = rotation_factors(rotation, signs);
  if (!along_rows) {
    for_ranges(context, rows, columns, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        std::memcpy(to + row * columns, values + row * columns, columns * sizeof(float));
        rotate_row(to + row * columns, columns / size, size, factors.data());
      }
    });
    return y;
  }
  const RowSegments shards(sequences, rows);
  const std::array<std::size_t, 2> whole{0, rows};
  const Segments segments = parameter ? Segments{whole.data(), 1} : shards.get();
  constexpr std::size_t width = 64;  // columns at a time: 32 KiB of them at most
  const std::size_t strips = (columns + width - 1) / width;
  for_ranges(context, strips, rows * width, [&](std::size_t begin, std::size_t end) {
    for (std::size_t strip = begin; strip < end; ++strip) {
      const std::size_t column = strip * width, count = (std::min)(width, columns - column);
      for (std::size_t s = 0; s < segments.count; ++s) {
        std::size_t row = segments.bounds[s];
        const std::size_t last = segments.bounds[s + 1];
        for (; row + size <= last; row += size) {
          for (std::size_t i = 0; i < size; ++i)
            for (std::size_t j = 0; j < count; ++j)
              to[(row + i) * columns + column + j] =
                  values[(row + i) * columns + column + j] * factors[i];
          butterflies(to + row * columns + column, size, columns, count);
        }
        for (; row < last; ++row)
          std::memcpy(to + row * columns + column, values + row * columns + column,
                      count * sizeof(float));
      }
    }
  });
  return y;
}

}  // namespace SOMA_NAMESPACE::detail
