#pragma once
// The functions of shape.hpp.

#include <soma/tensor/shape.hpp>

#include <soma/base/sizes.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace SOMA_NAMESPACE {

SOMA_INLINE Shape::Shape(std::span<const std::size_t> sizes) : rank_(sizes.size()) {
  if (rank_ > max_rank)
    fail(error_id::tensor_rank, "Shape", "rank", std::to_string(rank_),
         "0 to " + std::to_string(max_rank));
  for (std::size_t i = 0; i < rank_; ++i) sizes_[i] = sizes[i];
  // Checked even with an empty dimension: strides are products of the sizes, and must not
  // overflow.
  std::size_t product = 1;
  for (const std::size_t size : sizes)
    product = checked_multiply(product, (std::max)(size, std::size_t{1}), "Shape");
}

SOMA_INLINE Shape Shape::with(std::size_t dimension, std::size_t size) const {
  check(dimension);
  Shape result = *this;
  result.sizes_[dimension] = size;
  return Shape(std::span<const std::size_t>(result.begin(), result.rank_));
}

SOMA_INLINE Shape Shape::exchanged(std::size_t a, std::size_t b) const {
  check(a);
  check(b);
  Shape result = *this;
  std::swap(result.sizes_[a], result.sizes_[b]);
  return result;
}

SOMA_INLINE Shape Shape::without(std::size_t dimension) const {
  check(dimension);
  Shape result;
  for (std::size_t i = 0; i < rank_; ++i)
    if (i != dimension) result.sizes_[result.rank_++] = sizes_[i];
  return result;
}

SOMA_INLINE std::string to_string(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.rank(); ++i)
    text.append(i == 0 ? "" : ", ").append(std::to_string(shape[i]));
  return text + "]";
}

SOMA_INLINE void Shape::refuse(std::size_t dimension) const {
  fail(error_id::tensor_index, "Shape", "dimension", std::to_string(dimension),
       "below the rank of " + to_string(*this));
}

SOMA_INLINE Shape broadcast(const Shape& a, const Shape& b, std::string_view operation) {
  const std::size_t rank = (std::max)(a.rank(), b.rank());
  std::array<std::size_t, max_rank> sizes{};
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t x = i + a.rank() < rank ? 1 : a[i + a.rank() - rank];
    const std::size_t y = i + b.rank() < rank ? 1 : b[i + b.rank() - rank];
    if (x != y && x != 1 && y != 1)
      fail(error_id::tensor_broadcast, operation, "shape", to_string(b),
           "a shape that broadcasts with " + to_string(a));
    sizes[i] = x == 1 ? y : x;
  }
  return Shape(std::span<const std::size_t>(sizes.data(), rank));
}

}  // namespace SOMA_NAMESPACE
