#pragma once
// The norm of all gradients, clipping, and the test that all gradients are finite.

#include <soma/autograd/parameter.hpp>
#include <soma/autograd/row_blocks.hpp>
#include <soma/kernels/table.hpp>
#include <soma/ops/built_in.hpp>
#include <soma/ops/ranges.hpp>
#include <soma/runtime/heap_vector.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace soma::optim {

namespace detail {

// The squares of one parameter's gradient, block by block of the rows of its variable.
class SquaredBlocks {
 public:
  SquaredBlocks(Heap& heap, const Parameter& parameter, Tensor values, const Gradient& gradient)
      : values_(std::move(values)), rows_(gradient.rows), pieces_(heap) {
    const RowShape shape(parameter.var.shape());
    row_elements_ = shape.elements;
    first_ = parameter.first_row + gradient.first_row;
    if (rows_.defined()) numbers_ = rows_.span<std::int64_t>().data();
    const std::size_t count = row_elements_ == 0 ? 0 : values_.elements() / row_elements_;
    add_pieces({0, shape.rows}, {0, count});
  }

  std::size_t pieces() const { return pieces_.size(); }
  void square(const Kernels& kernels, std::size_t index) {
    Piece& piece = pieces_[index];
    piece.squares = squares_of(kernels, piece.block, piece.own);
  }
  // The sum along the tree. A block without values adds 0, which changes no sum of squares.
  double sum() const {
    std::array<double, 65> waiting{};  // one block for each level, and one more
    std::size_t count = 0;
    for (const Piece& piece : pieces_) {
      waiting[count++] = piece.squares;
      for (unsigned i = 0; i < piece.sums; ++i, --count) waiting[count - 2] += waiting[count - 1];
    }
    return waiting[0];
  }

 private:
  // The number of elements in the piece of the tree that one thread adds: many rows of an
  // embedding, because each of its rows is a block by itself.
  static constexpr std::size_t elements_of_piece = 8192;

  struct Piece {
    RowBlock block, own;  // `own`: the rows of the values
    double squares;
    unsigned sums;  // the number of sums with neighbours in the tree that this piece completes
  };

  // The first value in `own` that does not lie before `row`. Dense gradients count rows; sparse
  // gradients look them up.
  std::size_t place(std::size_t row, const RowBlock& own) const {
    if (row <= first_) return own.begin;
    row -= first_;
    if (numbers_ == nullptr) return (std::clamp)(row, own.begin, own.end());
    return static_cast<std::size_t>(std::lower_bound(numbers_ + own.begin, numbers_ + own.end(),
                                                     static_cast<std::int64_t>(row)) -
                                    numbers_);
  }
  // A half without values adds nothing, so a single row needs no smaller block.
  bool is_leaf(const RowBlock& block, const RowBlock& own) const {
    return own.rows == 1 || !block.splits(row_elements_);
  }
  // The sum of squares, along the tree, of the values in `own`, which lie in the block.
  double squares_of(const Kernels& kernels, const RowBlock& block, const RowBlock& own) const {
    if (is_leaf(block, own)) {
      const std::size_t row = row_elements_ * size_of(values_.dtype());
      SumSquaresArgs args{.count = own.rows * row_elements_,
                          .x = values_.raw() + own.begin * row,
                          .dtype = values_.dtype()};
      kernels.reduce.sum_squares(args);
      return args.result;
    }
    const std::size_t middle = place(block.upper().begin, own);
    const RowBlock lower{own.begin, middle - own.begin}, upper{middle, own.end() - middle};
    if (lower.rows == 0) return squares_of(kernels, block.upper(), upper);
    if (upper.rows == 0) return squares_of(kernels, block.lower(), lower);
    const double first = squares_of(kernels, block.lower(), lower);
    return first + squares_of(kernels, block.upper(), upper);
  }
  // `own`: the values that lie in the block.
  void add_pieces(const RowBlock& block, const RowBlock& own) {
    if (own.rows == 0) return;
    if (is_leaf(block, own) || own.rows * row_elements_ <= elements_of_piece) {
      pieces_.push_back({block, own, 0, 0});
      return;
    }
    const std::size_t middle = place(block.upper().begin, own);
    add_pieces(block.lower(), {own.begin, middle - own.begin});
    add_pieces(block.upper(), {middle, own.end() - middle});
    if (middle != own.begin && middle != own.end()) ++pieces_.back().sums;
  }

  Tensor values_, rows_;
  const std::int64_t* numbers_ = nullptr;  // the elements of rows_; nullptr: dense
  std::size_t row_elements_ = 0, first_ = 0;
  HeapVector<Piece> pieces_;
};

}  // namespace detail

// sqrt of the sum of squares of all gradients, in double: over the blocks of each parameter in
// their tree (RowBlock), then over the parameters in order. Parameters without a gradient add
// nothing. One pass over the gradients. If each rank holds a part of the gradients, share(sums)
// adds the parameters' sums over all ranks (all_reduce_parts()).
template <class Share>
double gradient_norm(Context& context, const Parameters& parameters, const Share& share) {
  HeapVector<detail::SquaredBlocks> squared(context.heap());
  struct Work {
    std::size_t parameter, piece;
  };
  HeapVector<Work> work(context.heap());
  HeapVector<double> sums(context.heap());
  squared.reserve(parameters.size());
  for (const Parameter& parameter : parameters) {
    const Gradient gradient = parameter.gradient();
    if (!gradient.defined()) continue;
    squared.push_back(detail::SquaredBlocks(context.heap(), parameter,
                                            contiguous(context, gradient.values), gradient));
    for (std::size_t i = 0; i < squared.back().pieces(); ++i)
      work.push_back({squared.size() - 1, i});
  }
  soma::detail::for_ranges(context, work.size(), row_block_elements,
                           [&](std::size_t begin, std::size_t end) {
                             for (std::size_t i = begin; i < end; ++i)
                               squared[work[i].parameter].square(context.kernels(), work[i].piece);
                           });
  const FloatEnvironment environment;
  for (const detail::SquaredBlocks& each : squared) sums.push_back(each.sum());
  share(std::span<double>(sums.data(), sums.size()));
  double total = 0;
  for (const double sum : sums) total += sum;
  return std::sqrt(total);
}
inline double gradient_norm(Context& context, const Parameters& parameters) {
  return gradient_norm(context, parameters, [](std::span<double>) {});
}

// The factor for the gradients that limits their norm to `limit`: limit / (norm + 1e-6) if the norm
// exceeds the limit, else 1. Pass the factor to the optimizer's step, which applies it as it reads
// gradients. The factor is 0 for an infinite norm and NaN for a NaN norm, so a step with it would
// show in the weights. To skip such a step, test std::isfinite(norm) first.
inline float clipping_factor(double norm, double limit) {
  const FloatEnvironment environment;
  return norm <= limit ? 1.0f : static_cast<float>(limit / (norm + 1e-6));
}

inline bool gradients_finite(Context& context, const Parameters& parameters) {
  for (const Parameter& parameter : parameters)
    if (const Tensor values = parameter.gradient().values;
        values.defined() && !context.built_in().all_finite(context, values))
      return false;
  return true;
}

}  // namespace soma::optim
