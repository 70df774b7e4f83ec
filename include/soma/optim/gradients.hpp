#pragma once
// What is done to all gradients together: their norm, clipping, and whether they are finite.

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
  // Along the tree. A block of which nothing is here adds 0, which changes no sum of squares.
  double sum() const {
    std::array<double, 65> waiting{};  // a block of each level, and one more
    std::size_t count = 0;
    for (const Piece& piece : pieces_) {
      waiting[count++] = piece.squares;
      for (unsigned i = 0; i < piece.sums; ++i, --count) waiting[count - 2] += waiting[count - 1];
    }
    return waiting[0];
  }

 private:
  // Elements of a part of the tree that one thread adds up: many rows of a table that is looked up
  // in, since each of them is a block by itself.
  static constexpr std::size_t elements_of_piece = 8192;

  struct Piece {
    RowBlock block, own;  // `own`: of the values
    double squares;
    unsigned sums;  // of neighbours in the tree, complete with this piece
  };

  // Of the values in `own`, the first that is not before a row: in dense ones rows are counted, in
  // sparse ones looked up.
  std::size_t place(std::size_t row, const RowBlock& own) const {
    if (row <= first_) return own.begin;
    row -= first_;
    if (numbers_ == nullptr) return (std::clamp)(row, own.begin, own.end());
    return static_cast<std::size_t>(std::lower_bound(numbers_ + own.begin, numbers_ + own.end(),
                                                     static_cast<std::int64_t>(row)) -
                                    numbers_);
  }
  // Halves of which nothing is here add nothing: a row that is alone needs no smaller block.
  bool is_leaf(const RowBlock& block, const RowBlock& own) const {
    return own.rows == 1 || !block.splits(row_elements_);
  }
  // Of the values in `own`, which lie in the block: along the tree.
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
  const std::int64_t* numbers_ = nullptr;  // of rows_; nullptr: dense
  std::size_t row_elements_ = 0, first_ = 0;
  HeapVector<Piece> pieces_;
};

}  // namespace detail

// sqrt of the sum of squares of all gradients, in double: over the blocks of each parameter in
// their tree (RowBlock), then over the parameters in order. Those without a gradient add nothing.
// One pass over the gradients. Where ranks keep parts of them, share(sums) makes the sums of the
// parameters those of all ranks (all_reduce_parts()).
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

// What gradients are multiplied by so that their norm is at most `limit`: limit / (norm + 1e-6)
// where the norm exceeds it, else 1. Given to the optimizer's step, which applies it as it reads
// them. So it is 0 for an infinite norm, and NaN for one that is NaN: a step with it would make
// that visible in the weights. Whoever would rather skip the step asks std::isfinite(norm) first.
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
