#pragma once
// The functions of gradients.hpp.

#include <soma/optim/gradients.hpp>

#include <soma/autograd/parameter.hpp>
#include <soma/autograd/row_blocks.hpp>
#include <soma/kernels/table.hpp>
#include <soma/ops/fields.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/ops/records.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace SOMA_NAMESPACE::optim::detail {

SOMA_INLINE SquaredBlocks::SquaredBlocks(Heap& heap, const Parameter& parameter, Tensor values,
                                         const Gradient& gradient)
    : values_(std::move(values)), rows_(gradient.rows), pieces_(heap) {
  const RowShape shape(parameter.var.shape());
  row_elements_ = shape.elements;
  first_ = parameter.first_row + gradient.first_row;
  if (rows_.defined()) numbers_ = rows_.span<std::int64_t>().data();
  const std::size_t count = row_elements_ == 0 ? 0 : values_.elements() / row_elements_;
  add_pieces({0, shape.rows}, {0, count});
}

SOMA_INLINE std::size_t SquaredBlocks::pieces() const { return pieces_.size(); }

SOMA_INLINE void SquaredBlocks::square(const Kernels& kernels, std::size_t index) {
  Piece& piece = pieces_[index];
  piece.squares = squares_of(kernels, piece.block, piece.own);
}

SOMA_INLINE double SquaredBlocks::sum() const {
  std::array<double, 65> waiting{};  // one block for each level, and one more
  std::size_t count = 0;
  for (const Piece& piece : pieces_) {
    waiting[count++] = piece.squares;
    for (unsigned i = 0; i < piece.sums; ++i, --count) waiting[count - 2] += waiting[count - 1];
  }
  return waiting[0];
}

SOMA_INLINE std::size_t SquaredBlocks::index_of(std::size_t row, const RowBlock& own) const {
  if (row <= first_) return own.begin;
  row -= first_;
  if (numbers_ == nullptr) return (std::clamp)(row, own.begin, own.end());
  return static_cast<std::size_t>(
      std::lower_bound(numbers_ + own.begin, numbers_ + own.end(), static_cast<std::int64_t>(row)) -
      numbers_);
}

SOMA_INLINE bool SquaredBlocks::is_leaf(const RowBlock& block, const RowBlock& own) const {
  return own.rows == 1 || !block.splits(row_elements_);
}

SOMA_INLINE double SquaredBlocks::squares_of(const Kernels& kernels, const RowBlock& block,
                                             const RowBlock& own) const {
  if (is_leaf(block, own)) {
    const std::size_t row = row_elements_ * size_of(values_.dtype());
    SumSquaresArgs args{.count = own.rows * row_elements_,
                        .x = values_.raw() + own.begin * row,
                        .dtype = values_.dtype()};
    kernels.reduce.sum_squares(args);
    return args.result;
  }
  const std::size_t middle = index_of(block.upper().begin, own);
  const RowBlock lower{own.begin, middle - own.begin}, upper{middle, own.end() - middle};
  if (lower.rows == 0) return squares_of(kernels, block.upper(), upper);
  if (upper.rows == 0) return squares_of(kernels, block.lower(), lower);
  const double first = squares_of(kernels, block.lower(), lower);
  return first + squares_of(kernels, block.upper(), upper);
}

SOMA_INLINE void SquaredBlocks::add_pieces(const RowBlock& block, const RowBlock& own) {
  if (own.rows == 0) return;
  if (is_leaf(block, own) || own.rows * row_elements_ <= elements_of_piece) {
    pieces_.push_back({block, own, 0, 0});
    return;
  }
  const std::size_t middle = index_of(block.upper().begin, own);
  add_pieces(block.lower(), {own.begin, middle - own.begin});
  add_pieces(block.upper(), {middle, own.end() - middle});
  if (middle != own.begin && middle != own.end()) ++pieces_.back().sums;
}

}  // namespace SOMA_NAMESPACE::optim::detail

namespace SOMA_NAMESPACE::optim {

SOMA_INLINE double gradient_norm(Context& context, const Parameters& parameters) {
  return gradient_norm(context, parameters, [](std::span<double>) {});
}

SOMA_INLINE float clipping_factor(double norm, double limit) {
  check_range("clipping_factor", "limit", limit, {.least = 0, .infinite = true});
  const FloatEnvironment environment;
  return norm <= limit ? 1.0f : static_cast<float>(limit / (norm + 1e-6));
}

SOMA_INLINE bool gradients_finite(Context& context, const Parameters& parameters) {
  for (const Parameter& parameter : parameters)
    if (const Tensor values = parameter.gradient().values;
        values.defined() && !context.built_in().all_finite(context, values))
      return false;
  return true;
}

}  // namespace SOMA_NAMESPACE::optim
