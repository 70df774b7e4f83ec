#pragma once
// The functions of image_functions.hpp.

#include <soma/autograd/image_functions.hpp>

#include <soma/autograd/choosing.hpp>
#include <soma/autograd/functions.hpp>
#include <soma/ops/ranges.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace SOMA_NAMESPACE::detail {

SOMA_INLINE Var places(Tape& tape, const std::vector<std::int64_t>& indices) {
  return tape.constant(Tensor::from(tape.context(), indices, Shape{indices.size()}));
}

// The pixels of `windows` windows that cover `size` pixels evenly, each with as many as the largest
// has: a smaller one repeats its last, which changes neither the largest pixel nor the first of
// equal ones.
struct EvenWindows {
  std::vector<std::int64_t> pixels;
  std::size_t length = 0;

  EvenWindows(std::size_t size, std::size_t windows) {
    const auto begin = [&](std::size_t i) { return even_border(size, windows, i); };
    // The end is rounded up.
    const auto end = [&](std::size_t i) {
      return size - even_border(size, windows, windows - 1 - i);
    };
    for (std::size_t i = 0; i < windows; ++i) length = (std::max)(length, end(i) - begin(i));
    for (std::size_t i = 0; i < windows; ++i)
      for (std::size_t k = 0; k < length; ++k)
        pixels.push_back(static_cast<std::int64_t>((std::min)(begin(i) + k, end(i) - 1)));
  }
};

}  // namespace SOMA_NAMESPACE::detail

namespace SOMA_NAMESPACE {

SOMA_INLINE Var reflect_pad(Tape& tape, const Var& x, std::initializer_list<Padding> paddings) {
  const std::size_t rank = x.shape().rank();
  if (paddings.size() > rank)
    fail(error_id::tensor_rank, "reflect_pad", "x", x.value().describe(),
         "at least " + std::to_string(paddings.size()) + " dimensions");
  Var y = x;
  std::size_t dimension = rank - paddings.size();
  for (const Padding& padding : paddings) {
    const std::size_t size = x.shape()[dimension];
    if (padding.before >= size || padding.behind >= size)
      fail(
          error_id::operator_value, "reflect_pad", "paddings",
          std::to_string(padding.before) + ", " + std::to_string(padding.behind),
          "below the size of dimension " + std::to_string(dimension) + ", " + std::to_string(size));
    std::vector<std::int64_t> from;
    for (std::size_t i = padding.before; i > 0; --i) from.push_back(static_cast<std::int64_t>(i));
    for (std::size_t i = 0; i < size; ++i) from.push_back(static_cast<std::int64_t>(i));
    for (std::size_t i = 0; i < padding.behind; ++i)
      from.push_back(static_cast<std::int64_t>(size - 2 - i));
    if (padding.before != 0 || padding.behind != 0)
      y = index_select(tape, y, dimension, detail::places(tape, from));
    ++dimension;
  }
  return y;
}

SOMA_INLINE Var adaptive_max_pool2d(Tape& tape, const Var& x, std::size_t height,
                                    std::size_t width) {
  const Shape& shape = x.shape();
  if (shape.rank() != 4)
    fail(error_id::tensor_rank, "adaptive_max_pool2d", "x", x.value().describe(), "[N, C, H, W]");
  if (height == 0 || width == 0)
    fail(error_id::operator_value, "adaptive_max_pool2d", "height, width",
         std::to_string(height) + ", " + std::to_string(width), "at least 1");
  if (shape[2] == 0 || shape[3] == 0)
    fail(error_id::tensor_shape, "adaptive_max_pool2d", "x", x.value().describe(),
         "images of one pixel at least");
  const detail::EvenWindows down(shape[2], height), across(shape[3], width);
  Var y = x;
  if (down.pixels.size() != shape[2])
    y = index_select(tape, y, 2, detail::places(tape, down.pixels));
  if (across.pixels.size() != shape[3])
    y = index_select(tape, y, 3, detail::places(tape, across.pixels));
  return max_pool2d(
      tape, y,
      {down.length, across.length, {.stride_height = down.length, .stride_width = across.length}});
}

}  // namespace SOMA_NAMESPACE
