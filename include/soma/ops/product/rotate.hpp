#pragma once
// rotated(): an operand of a product times a Hadamard matrix along the sum (Rotation, in
// numeric/quantizer.hpp). A pass over the operand, and a copy of it in fp32.

#include <soma/kernels/quantize/args.hpp>
#include <soma/numeric/draw.hpp>
#include <soma/numeric/quantizer.hpp>
#include <soma/ops/run.hpp>
#include <soma/ops/settings.hpp>
#include <soma/ops/support.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace SOMA_NAMESPACE::detail {

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

// `along_rows`: the sum runs down the columns, and parts start anew at each shard of `sequences`;
// those of a `parameter` do not.
inline Tensor rotated(Context& context, const Tensor& x, const Rotation& rotation,
                      const Draw& signs, bool along_rows, bool parameter,
                      const Sequences& sequences) {
  Tensor y = Tensor::empty(context, x.shape());
  const TensorRows from = rows_of(context, x);
  const std::size_t rows = from.shape().rows(), columns = from.shape().columns();
  float* const to = y.mutable_data<float>();
  const std::array<float, most_rotated> factors = rotation_factors(rotation, signs);
  const auto rotate = [&](std::size_t row, std::size_t count, std::size_t column,
                          std::size_t width) {
    context.kernels().rotate({.rows = count,
                              .columns = width,
                              .x = part(operand(from), row, column),
                              .y = to + row * columns + column,
                              .row_stride = columns,
                              .size = rotation.size,
                              .factors = factors.data(),
                              .down = along_rows});
  };
  if (!along_rows) {
    for_ranges(context, rows, columns,
               [&](std::size_t begin, std::size_t end) { rotate(begin, end - begin, 0, columns); });
    return y;
  }
  const RowSegments shards(sequences, rows);
  const std::array<std::size_t, 2> whole{0, rows};
  const Segments segments = parameter ? Segments{whole.data(), 1} : shards.get();
  constexpr std::size_t width = 64;  // columns that threads share out
  for_ranges(context, (columns + width - 1) / width, rows * width,
             [&](std::size_t begin, std::size_t end) {
               const std::size_t column = begin * width;
               const std::size_t count = (std::min)(end * width, columns) - column;
               for (std::size_t s = 0; s < segments.count; ++s)
                 rotate(segments.bounds[s], segments.bounds[s + 1] - segments.bounds[s], column,
                        count);
             });
  return y;
}

}  // namespace SOMA_NAMESPACE::detail
