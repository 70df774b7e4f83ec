#pragma once
// Shape: the sizes of a tensor's dimensions. Rank 0 (one element) to 8.

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

inline constexpr std::size_t max_rank = 8;

// Distances between neighbours along each dimension, in elements; 0 repeats an element.
using Strides = std::array<std::size_t, max_rank>;

class Shape {
 public:
  constexpr Shape() = default;
  // Errors tensor.rank, base.size_overflow (more than 2^64 - 1 elements).
  Shape(std::initializer_list<std::size_t> sizes)
      : Shape(std::span<const std::size_t>(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const std::size_t> sizes);

  constexpr std::size_t rank() const { return rank_; }
  // Error tensor.index.
  constexpr std::size_t operator[](std::size_t dimension) const {
    check(dimension);
    return sizes_[dimension];
  }
  constexpr std::size_t elements() const {
    std::size_t product = 1;
    for (const std::size_t size : *this) product *= size;
    return product;
  }
  // The last size, and the product of the others: a tensor seen as a matrix. Rank 0 is 1 x 1.
  constexpr std::size_t columns() const { return rank_ == 0 ? 1 : sizes_[rank_ - 1]; }
  constexpr std::size_t rows() const {
    std::size_t product = 1;
    for (std::size_t i = 0; i + 1 < rank_; ++i) product *= sizes_[i];
    return product;
  }

  constexpr const std::size_t* begin() const { return sizes_.data(); }
  constexpr const std::size_t* end() const { return sizes_.data() + rank_; }
  friend constexpr bool operator==(const Shape& a, const Shape& b) {
    bool equal = a.rank_ == b.rank_;
    for (std::size_t i = 0; i < a.rank_; ++i) equal = equal && a.sizes_[i] == b.sizes_[i];
    return equal;
  }

  // The same shape with another size in that dimension, with two dimensions exchanged, or without
  // that dimension. Error tensor.index.
  Shape with(std::size_t dimension, std::size_t size) const;
  Shape exchanged(std::size_t a, std::size_t b) const;
  Shape without(std::size_t dimension) const;

  // Row-major strides.
  constexpr Strides strides() const {
    Strides result{};
    std::size_t step = 1;
    for (std::size_t i = rank_; i-- > 0;) {
      result[i] = step;
      step *= (std::max)(sizes_[i], std::size_t{1});
    }
    return result;
  }

 private:
  constexpr void check(std::size_t dimension) const {
    if (dimension >= rank_) refuse(dimension);
  }
  [[noreturn]] void refuse(std::size_t dimension) const;

  std::array<std::size_t, max_rank> sizes_{};
  std::size_t rank_ = 0;
};

// "[2, 3]"
std::string to_string(const Shape& shape);

// NumPy's broadcasting: shapes are aligned at their last dimensions; two sizes are equal, or one of
// them is 1. Error tensor.broadcast names both shapes.
Shape broadcast(const Shape& a, const Shape& b, std::string_view operation);

}  // namespace SOMA_NAMESPACE

#ifndef SOMA_DISPATCH
#include <soma/tensor/impl/shape.ipp>
#endif
